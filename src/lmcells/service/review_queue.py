"""Which notes to review first: those with the most doubt, and those with the most frequent unknown forms."""

import hashlib
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, STATES
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import section_finder
from lmcells.service.review_decisions import SURE, UNKNOWN, Version
from lmcells.service.reviews import ReviewStore

_LOOKS_SHORT = re.compile(r"(?<![\w/.'-])[A-Z]{2,6}s?(?![\w'/-]|\.\w)")
_CAPITALS_BEFORE, _CAPITALS_AFTER = (
    re.compile(r"\b[A-Z]{3,} \Z"),
    re.compile(r" [A-Z]{3,}\b"),
)  # a heading in a line
_WORD = 5  # letters, from which what the model knows in lower case is a word
_ROMAN = re.compile(r"[IVX]+")
_LINE = re.compile(r"[^\r\n]*")
_CAPITALS = 0.6  # share of capitals among the letters of a line, from which they tell nothing
_MOST_MENTIONS = 5_000  # of a note: a page with more cannot be reviewed

find_sections = section_finder("auto")


class Sections:
    """The names of a note's sections, by offset."""

    def __init__(self, note: Note) -> None:
        self._sections: Sequence[Section] = find_sections(note)
        self._starts = [each.start for each in self._sections]

    def __call__(self, offset: int) -> str | None:
        """Return the name of the section at an offset."""
        place = bisect_right(self._starts, offset) - 1
        return self._sections[place].name or None if place >= 0 else None


def version_of(expander: Expander) -> Version:
    """Return the version of a model, by its weights, and of an inventory, by its senses."""
    config = expander.model.config
    weights = "".join(file["sha256"] for _, file in sorted(config.files.items()))
    senses = (tuple(expander.inventory), getattr(expander.inventory, "rules", None))
    return Version(f"lmcells {config.written_by} {_digest(weights)}", _digest(repr(senses)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def mentions_of(note: Note, expansions: Sequence[Expansion], expander: Expander) -> list[Expansion]:
    """Return the expansions of a note, and what looks like a short form but is in no inventory."""
    unknown = []
    section_at: Sections | None = None
    taken = [(each.start, each.end) for each in expansions]
    starts = [start for start, _ in taken]
    for line in _LINE.finditer(note.text):
        letters = [each for each in line[0] if each.isalpha()]
        if sum(map(str.isupper, letters)) > _CAPITALS * len(letters):
            continue
        for found in _LOOKS_SHORT.finditer(note.text, *line.span()):
            start, end = found.span()
            before = bisect_right(starts, end - 1) - 1
            is_taken = before >= 0 and taken[before][1] > start
            if (
                not is_taken
                and not _is_known(found[0], expander)
                and not _is_in_heading(note.text, start, end)
            ):
                section_at = section_at or Sections(note)
                unknown.append(
                    Expansion(start, end, found[0], section_at(start), None, None, "model", (), UNKNOWN)
                )
    return sorted([*expansions, *unknown], key=lambda each: each.start)[:_MOST_MENTIONS]


def _is_known(written: str, expander: Expander) -> bool:
    """Whether it is in the inventory, or is a word, a name or a number in capitals."""
    stem = written.removesuffix("s")
    word = stem.lower()
    return (
        any(each in expander.inventory for each in (written, stem, stem.upper()))
        or stem in STATES
        or word in NOT_SHORTHAND
        or word in NAMES
        or (len(word) >= _WORD and word in expander.model.word_ids)
        or _ROMAN.fullmatch(stem) is not None
    )


def _is_in_heading(text: str, start: int, end: int) -> bool:
    return bool(_CAPITALS_BEFORE.search(text[max(0, start - 20) : start]) or _CAPITALS_AFTER.match(text, end))


def add_notes(
    store: ReviewStore,
    notes: Iterable[Note],
    expander: Expander,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Expand notes and put them into a file of reviews, the most useful first; -> their number.

    A note is useful by its doubts, each weighed by how doubtful it is, and by its unknown forms, each weighed by the
    logarithm of the number of notes that have it.
    """
    version = version_of(expander)
    doubts: dict[int, float] = {}
    unknown: dict[int, frozenset[str]] = {}
    for expansions, note in expander.pipe(((note, note) for note in notes), as_tuples=True):
        mentions = mentions_of(note, expansions, expander)
        note_id = store.add(note, mentions, version=version)
        doubts[note_id] = sum(doubt(each) for each in mentions if each.abstained != UNKNOWN)
        unknown[note_id] = frozenset(each.short_form for each in mentions if each.abstained == UNKNOWN)
        on_progress(len(doubts))
    if not doubts:
        raise InputError("there is no note to review. Give a file with notes, or leave it out.")
    n_notes = Counter(form for forms in unknown.values() for form in forms)
    store.rank(
        {
            note_id: value + sum(math.log1p(n_notes[form]) for form in unknown[note_id])
            for note_id, value in doubts.items()
        }
    )
    return len(doubts)


def doubt(expansion: Expansion) -> float:
    """How doubtful an answer is: 0 where it is sure, 1 where there is none."""
    probability = expansion.probability or 0.0
    return 0.0 if probability >= SURE else 1.0 - probability
