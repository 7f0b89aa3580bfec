"""Queue notes for review, the most useful first; export reviews as annotations, a site inventory or labelled notes."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from lmcells.errors import FormatError, InputError
from lmcells.evaluation.marked_notes import NONE, SHORT_FORM
from lmcells.expansion import SenseInventory
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.finder import overlaps
from lmcells.expansion.inventory import ALL_SENSES, form_key
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, STATES
from lmcells.integrations import omop
from lmcells.integrations.rows import annotation_row, csv_text
from lmcells.notes.note import Note
from lmcells.service.review_decisions import SURE, UNKNOWN, Decision, ReviewedMention, ReviewedNote, Version
from lmcells.service.reviews import ReviewStore, find_sections, section_at

SITE_COLUMNS = ("short_form", "long_form", "action", "section", "category")

_LOOKS_SHORT = re.compile(r"(?<![\w/.'-])[A-Z]{2,6}s?(?![\w'/-]|\.\w)")
_HEADING_BEFORE, _HEADING_AFTER = re.compile(r"\b[A-Z]{3,} \Z"), re.compile(r" [A-Z]{3,}\b")  # within a line
_WORD = 5  # letters: a word of this length that the model knows in lower case is a word
_ROMAN = re.compile(r"[IVX]+")
_LINE = re.compile(r"[^\r\n]*")
_CAPITALS = 0.6  # share of capitals among the letters of a line above which they carry no information
_MOST_MENTIONS = 5_000  # of a note: a page with more cannot be reviewed

Where = tuple[tuple[str, str], ...]


# Notes to review


def version_of(expander: Expander) -> Version:
    """Return the version of a model, by its weights, and of an inventory, by its senses."""
    config = expander.model.config
    weights = "".join(file["sha256"] for _, file in sorted(config.files.items()))
    senses = repr((tuple(expander.inventory), getattr(expander.inventory, "rules", None)))
    of_weights, of_senses = (hashlib.sha256(each.encode()).hexdigest()[:12] for each in (weights, senses))
    return Version(f"lmcells {config.written_by} {of_weights}", of_senses)


def mentions_of(note: Note, expansions: Sequence[Expansion], expander: Expander) -> list[Expansion]:
    """Return the expansions of a note, and mentions that look like short forms but are not in the inventory."""
    mentions, sections = list(expansions), None
    for line in _LINE.finditer(note.text):
        letters = [each for each in line[0] if each.isalpha()]
        if sum(map(str.isupper, letters)) > _CAPITALS * len(letters):
            continue
        for found in _LOOKS_SHORT.finditer(note.text, *line.span()):
            start, end = found.span()
            words_before = note.text[max(0, start - 20) : start]
            is_heading = _HEADING_BEFORE.search(words_before) or _HEADING_AFTER.match(note.text, end)
            if not (overlaps(expansions, start, end) or _is_known(found[0], expander) or is_heading):
                sections = sections or find_sections(note)
                section = section_at(sections, start)
                mentions.append(Expansion(start, end, found[0], section, None, None, "model", (), UNKNOWN))
    return sorted(mentions, key=lambda each: each.start)[:_MOST_MENTIONS]


def _is_known(written: str, expander: Expander) -> bool:
    """Whether it is in the inventory, or is a word, a name or a number in capitals."""
    stem = written.removesuffix("s")
    word = stem.lower()
    if any(each in expander.inventory for each in (written, stem, stem.upper())) or _ROMAN.fullmatch(stem):
        return True
    is_word = len(word) >= _WORD and word in expander.model.word_ids
    return is_word or stem in STATES or word in NOT_SHORTHAND or word in NAMES


def add_notes(
    store: ReviewStore,
    notes: Iterable[Note],
    expander: Expander,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Expand notes and put them into a file of reviews, the most useful first; return their number.

    A note is useful for its doubts, each weighted by its uncertainty, and its unknown forms, each weighted by the
    logarithm of the number of notes that have it.
    """
    version = version_of(expander)
    usefulness: dict[int, float] = {}
    unknown: dict[int, frozenset[str]] = {}
    for expansions, note in expander.pipe(((note, note) for note in notes), as_tuples=True):
        mentions = mentions_of(note, expansions, expander)
        note_id = store.add(note, mentions, version=version)
        sure = [each.probability or 0.0 for each in mentions if each.abstained != UNKNOWN]
        usefulness[note_id] = sum(1.0 - probability for probability in sure if probability < SURE)
        unknown[note_id] = frozenset(each.short_form for each in mentions if each.abstained == UNKNOWN)
        on_progress(len(usefulness))
    if not usefulness:
        raise InputError("there is no note to review. Give a file with notes, or leave it out.")
    n_notes = Counter(form for forms in unknown.values() for form in forms)
    for note_id, forms in unknown.items():
        usefulness[note_id] += sum(math.log1p(n_notes[form]) for form in forms)
    store.rank(usefulness)
    return len(usefulness)


# Exports


def annotations(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield JSON lines: the rows of `lmcells annotate`, with who decided, when, and with which model and inventory."""
    for each in notes:
        for mention in each.mentions:
            if mention.corrected is not None:
                decision = mention.settled
                fields = {"reviewed_at": "at", "model": "model", "inventory": "inventory"}
                made = {name: getattr(decision, field, None) for name, field in fields.items()}
                reviewed = {"reviewed_by": sorted(mention.by_reviewer), **made}
                yield _line(annotation_row(each.note, mention.corrected) | reviewed)


def note_nlp(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield the corrected annotations as OMOP's NOTE_NLP, in CSV; ids of notes must be whole numbers."""
    if unnumbered := [each.note.id for each in notes if omop.note_number(each.note) is None]:
        raise FormatError(
            f"the id of note {unnumbered[0]!r} is not a whole number, which OMOP needs ({len(unnumbered):,} of "
            f"{len(notes):,} are not). Export annotations.jsonl, or delete these notes."
        )
    options = omop.NoteNlpOptions(time=datetime.now())
    corrected = ((each.note, (mention.corrected for mention in each.mentions)) for each in notes)
    rows = (row for note, found in corrected for row in options.rows(note, filter(None, found)))
    numbered = ({"note_nlp_id": number} | row for number, row in enumerate(rows, start=1))
    yield csv_text(omop.COLUMNS, numbered)


def labelled(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield marked notes for `lmcells evaluate --notes`, as JSON lines: those that a reviewer has finished.

    Mentions that nobody decided, or on which reviewers disagree, are marked as unclear and not scored.
    """
    for each in notes:
        if each.done_by:
            marks = []
            for mention in each.mentions:
                decision = mention.settled
                kind = "unclear" if decision is None else SHORT_FORM if decision.long_form else NONE
                mark = {"start": mention.expansion.start, "end": mention.expansion.end, "kind": kind}
                senses = {"senses": [decision.long_form]} if decision and decision.long_form else {}
                marks.append(mark | senses)
            yield _line({"id": each.note.id, "text": each.note.text, "mentions": marks})


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def site_inventory(notes: Sequence[ReviewedNote], inventory: SenseInventory) -> Iterator[str]:
    """Yield the rules that follow from the decisions, as the CSV of a layer over the inventory; see `site_rules`."""
    rules, _ = site_rules(notes, inventory)
    rows = (dict(zip(SITE_COLUMNS, rule, strict=False)) | dict(where) for *rule, where in rules)
    yield csv_text(SITE_COLUMNS, rows)


def site_rules(
    notes: Sequence[ReviewedNote], inventory: SenseInventory
) -> tuple[list[tuple[str, str, str, Where]], int]:
    """Return rules (short form, long form, add | forbid | pin, where), and how many contradict each other.

    A sense that holds in a section, a category or everywhere is pinned there; one that never holds is forbidden; one
    that the inventory lacks is added. Where reviewers contradict each other, no rule is made.
    """
    meant: dict[tuple[str, Where], dict[str, str]] = {}  # what each reviewer said last
    never: set[tuple[str, str, Where]] = set()
    added: set[tuple[str, str, Where]] = set()
    spelling: dict[tuple[str, tuple[str, ...]], str] = {}  # of two that differ in case or number, the first
    for decision, mention in sorted(_made(notes), key=lambda each: each[0].id):
        value = {"section": decision.section, "category": decision.category}.get(decision.scope)
        where: Where = () if value is None else ((decision.scope, value),)
        long_form = decision.long_form or ALL_SENSES
        long_form = spelling.setdefault((decision.short_form, form_key(long_form)), long_form)
        if decision.action == "never":
            never.add((decision.short_form, long_form, where))
        elif decision.scope in ("section", "category", "everywhere"):
            meant.setdefault((decision.short_form, where), {})[decision.reviewer] = long_form
        elif decision.long_form and _is_new(decision, mention, inventory):
            added.add((decision.short_form, long_form, ()))
    rules: list[tuple[str, str, str, Where]] = []
    contradicted: set[tuple[str, str, Where]] = set()
    for (short_form, where), said in meant.items():
        claims = {(short_form, long_form, where) for long_form in said.values()}
        if len(claims) > 1 or claims & never:
            contradicted |= claims
        else:
            long_form = claims.pop()[1]
            rules.append((short_form, long_form, "forbid" if long_form == ALL_SENSES else "pin", where))
    contradicted |= added & never
    pinned = {(short_form, long_form, where) for short_form, long_form, _, where in rules}
    rules += [(name, long_form, "forbid", where) for name, long_form, where in never - contradicted]
    rules += [(name, long_form, "add", where) for name, long_form, where in added - contradicted - pinned]
    return sorted(rules), len(contradicted)


def _made(notes: Sequence[ReviewedNote]) -> Iterator[tuple[Decision, ReviewedMention]]:
    """Yield every decision that still holds at the mention where it was made, with that mention."""
    for note in notes:
        for mention in note.mentions:
            for decision in (*mention.by_reviewer.values(), *mention.exclusions):
                if decision.is_made_at(mention.expansion, note.id):
                    yield decision, mention


def _is_new(decision: Decision, mention: ReviewedMention, inventory: SenseInventory) -> bool:
    """Whether a decision names a sense that is neither in the inventory nor defined in the note."""
    expansion = mention.expansion
    if decision.long_form == expansion.long_form and expansion.source != "letters":
        return False
    senses = inventory.by_short_form.get(decision.short_form, ())
    forms = {form_key(form) for sense in senses for form in (sense.long_form, *sense.forms)}
    return form_key(decision.long_form or "") not in forms


Export = Callable[[Sequence[ReviewedNote], SenseInventory], Iterator[str]]
EXPORTS: dict[str, Export] = {
    "annotations.jsonl": annotations,
    "note_nlp.csv": note_nlp,
    "site_inventory.csv": site_inventory,
    "labelled.jsonl": labelled,
}
"""What can be exported, by the name of its file."""
