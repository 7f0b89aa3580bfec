"""Decisions about mentions: which mentions they apply to, which decision wins, and where reviewers agree."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.inventory import form_key
from lmcells.notes.note import Note

Scope = Literal["mention", "note", "section", "category", "everywhere"]
Action = Literal["is", "never", "done"]

# Why there is no answer:
UNKNOWN = "not_in_inventory"  # it looks like a short form, but has no sense
NOT_A_SHORT_FORM = "not_a_short_form"  # a reviewer said so
EXCLUDED = "excluded_by_review"  # a reviewer said that its sense is never meant
DISPUTED = "disputed"  # reviewers disagree
SURE = 0.9  # an answer below this is a doubt

_NARROW: dict[str, int] = {scope: -place for place, scope in enumerate(get_args(Scope))}


class Version(NamedTuple):
    """Which model and which inventory gave the answers that were reviewed."""

    model: str
    inventory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a reviewer chose for the mention at `text[start:end]`; a `long_form` of None: it is not a short form."""

    start: int
    end: int
    long_form: str | None
    action: Action = "is"
    scope: Scope = "mention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Choice):
    """A stored choice: where it was made, by whom, when, and with which model and inventory."""

    id: int
    note: int
    short_form: str
    section: str | None
    category: str | None
    reviewer: str
    at: str
    model: str
    inventory: str

    def reaches(self, mention: Expansion, note: int, category: str | None) -> bool:
        """Whether its scope includes another mention of the same short form."""
        return {
            "mention": False,
            "note": self.note == note,
            "section": mention.section is not None and self.section == mention.section,
            "category": category is not None and self.category == category,
            "everywhere": True,
        }[self.scope]

    def is_made_at(self, mention: Expansion, note: int) -> bool:
        return (self.note, self.start, self.end) == (note, mention.start, mention.end)

    def strength(self, mention: Expansion, note: int) -> tuple[bool, int, int]:
        """A decision in the note itself beats a rule, a narrow rule a wide one, and a new decision an old one."""
        is_own = self.is_made_at(mention, note) or (self.note == note and self.scope == "note")
        return is_own, 0 if is_own else _NARROW[self.scope], self.id


@dataclass(frozen=True, slots=True)
class ReviewedMention:
    """A mention, each reviewer's decision about it, and the decisions that a sense is never meant there."""

    expansion: Expansion
    by_reviewer: dict[str, Decision] = field(default_factory=dict)
    exclusions: tuple[Decision, ...] = ()

    @property
    def never(self) -> frozenset[str]:
        return frozenset(each.long_form for each in self.exclusions if each.long_form is not None)

    def answer(self, decision: Decision | None) -> Expansion:
        """Return the mention with a decision about it; without one, as the expander answered."""
        if decision is None:
            return self.without_answer(EXCLUDED) if self.expansion.long_form in self.never else self.expansion
        if decision.long_form is None:
            return replace(self.without_answer(NOT_A_SHORT_FORM), source="review", candidates=())
        known = {form_key(each.long_form): each.concept_id for each in self.expansion.candidates}
        chosen = Candidate(decision.long_form, 1.0, known.get(form_key(decision.long_form)))
        sure = replace(self.expansion, long_form=chosen.long_form, probability=1.0, candidates=(chosen,))
        return replace(sure, source="review", abstained=None)

    def without_answer(self, reason: str) -> Expansion:
        return replace(self.expansion, long_form=None, probability=None, abstained=reason)

    @property
    def corrected(self) -> Expansion | None:
        """The mention as most reviewers decided, or unchanged if nobody did; None if it is not a short form."""
        if self.settled is None and self.is_disputed:
            return self.without_answer(DISPUTED)
        answer = self.answer(self.settled)
        return None if answer.abstained in (NOT_A_SHORT_FORM, UNKNOWN) else answer

    @property
    def is_doubt(self) -> bool:
        return (self.answer(None).probability or 0.0) < SURE

    @property
    def is_disputed(self) -> bool:
        return len({each.long_form for each in self.by_reviewer.values()}) > 1

    @property
    def settled(self) -> Decision | None:
        """The latest decision for the majority's answer; None if nobody decided, or in a tie."""
        votes = Counter(each.long_form for each in self.by_reviewer.values()).most_common(2)
        if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):
            return None
        agreeing = (each for each in self.by_reviewer.values() if each.long_form == votes[0][0])
        return max(agreeing, key=lambda each: each.id)


@dataclass(frozen=True, slots=True)
class ReviewedNote:
    """A note with all its mentions, including those that a reviewer marked by hand."""

    id: int
    note: Note
    mentions: tuple[ReviewedMention, ...]
    done_by: frozenset[str]

    def n_left(self, reviewer: str) -> int:
        """The number of doubts that a reviewer has not decided."""
        return sum(each.is_doubt and reviewer not in each.by_reviewer for each in self.mentions)


def join(
    note_id: int, note: Note, mentions: Sequence[Expansion], decisions: Sequence[Decision]
) -> ReviewedNote:
    category = note.metadata.get("category")
    made_at: dict[tuple[int, int], list[Decision]] = {}
    reaching: dict[str, list[Decision]] = {}  # further than the mention they were made at
    for each in decisions:
        if each.note == note_id:
            made_at.setdefault((each.start, each.end), []).append(each)
        if each.scope != "mention":
            reaching.setdefault(each.short_form, []).append(each)
    found = list(mentions)
    taken = {(each.start, each.end) for each in mentions}
    for (start, end), made in made_at.items():  # reviewers may mark what the expander does not find
        is_free = not any(one < end and start < other for one, other in taken)
        if is_free and any(each.action == "is" for each in made):
            taken.add((start, end))
            first = made[0]
            found.append(
                Expansion(start, end, first.short_form, first.section, None, None, "model", (), UNKNOWN)
            )
    reviewed = []
    for mention in sorted(found, key=lambda each: each.start):
        about = made_at.get((mention.start, mention.end), []) + [
            each
            for each in reaching.get(mention.short_form, ())
            if each.reaches(mention, note_id, category) and not each.is_made_at(mention, note_id)
        ]
        strongest_last = sorted(about, key=lambda each: each.strength(mention, note_id))
        by_reviewer = {each.reviewer: each for each in strongest_last if each.action == "is"}
        exclusions = tuple(each for each in about if each.action == "never")
        reviewed.append(ReviewedMention(mention, by_reviewer, exclusions))
    done_by = frozenset(each.reviewer for each in made_at.get((0, 0), ()) if each.action == "done")
    return ReviewedNote(note_id, note, tuple(reviewed), done_by)


def agreement(notes: Iterable[ReviewedNote]) -> dict[str, int]:
    """Count the mentions that two or more reviewers decided, and those on which they agree."""
    shared = [each for note in notes for each in note.mentions if len(each.by_reviewer) > 1]
    return {"n_shared": len(shared), "n_agreed": sum(not each.is_disputed for each in shared)}
