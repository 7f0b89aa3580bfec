"""A sense inventory proposed from notes: what they themselves say their short forms mean, "atrial fibrillation (AF)".

    definitions = DefinitionCounts(known=shipped_inventory())
    for note in read_notes(path, report=report):
        definitions.add(note)
    proposed = definitions.propose(min_count=2)
    save_inventory(proposed.inventory, Path("senses.csv"))

Only distinct definitions are kept in memory, with how many notes give each.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lmcells.expansion.inventory import SEPARATOR, Sense, SenseInventory
from lmcells.expansion.ordinary_words import TITLES
from lmcells.expansion.sense_lookup import SenseLookup
from lmcells.expansion.spelling_variants import group_variants
from lmcells.notes.definitions import Definition, find_definitions
from lmcells.notes.note import Note
from lmcells.notes.placeholders import MARK

_BREAK = "|"  # what no definition reaches across
_WORD_BEFORE = re.compile(r"\b([A-Z][a-z]+)\.?\s+\Z")
_LONGEST_TITLE = 12  # characters, with the space after it


class Wording(NamedTuple):
    """A short form and a long form, as a definition has them."""

    short_form: str
    long_form: str


class ProposedSense(NamedTuple):
    """A sense, and in how many notes it is defined."""

    sense: Sense
    n_notes: int


@dataclass(frozen=True, slots=True)
class ProposedInventory:
    """Senses by short form, the most frequent first, and how many others were defined too rarely."""

    senses: tuple[ProposedSense, ...]
    n_too_rare: int

    @property
    def inventory(self) -> SenseInventory:
        return SenseInventory.from_senses(proposed.sense for proposed in self.senses)


class DefinitionCounts:
    """Counts in how many notes each short form is defined, and how.

    `known` is an inventory whose long forms are definitions whether the letters tell or not: "left eye (OS)".
    """

    def __init__(self, known: SenseInventory | None = None) -> None:
        self.n_notes = 0
        self.n_definitions = 0
        self._lookup = SenseLookup(known or SenseInventory())
        # By short form without case and dots: how many notes define it in exactly these ways.
        self._n_notes_with: dict[str, Counter[frozenset[Wording]]] = {}

    @property
    def n_wordings(self) -> int:
        """How many distinct definitions there are."""
        return sum(
            len({wording for wordings in counts for wording in wordings})
            for counts in self._n_notes_with.values()
        )

    def add(self, note: Note) -> None:
        """Count what a note defines, each way once; a definition does not cross the sections that the file gives."""
        self.n_notes += 1
        defined: dict[str, set[Wording]] = {}
        for text in _pieces(note):
            for definition in find_definitions(text, self._spells):
                if not _is_a_name(text, definition):
                    self.n_definitions += 1
                    wording = Wording(definition.short_form, definition.long_form)
                    defined.setdefault(_plain(definition.short_form), set()).add(wording)
        for plain, wordings in defined.items():
            self._n_notes_with.setdefault(plain, Counter())[frozenset(wordings)] += 1

    def propose(self, *, min_count: int = 1) -> ProposedInventory:
        """Gather the spellings of one long form into a sense, and keep what at least so many notes define."""
        found = [each for counts in self._n_notes_with.values() for each in self._senses(counts)]
        kept = sorted((each for each in found if each.n_notes >= min_count), key=_rank)
        return ProposedInventory(tuple(kept), len(found) - len(kept))

    def _spells(self, short_form: str, words: str) -> str | None:
        sense = self._lookup(short_form, words)
        return sense.long_form if sense else None

    def _senses(self, counts: Counter[frozenset[Wording]]) -> Iterator[ProposedSense]:
        """Yield the senses of short forms that differ only in case and dots."""
        wordings = sorted({wording for together in counts for wording in together})
        # A known sense has its name whichever way the short form is written.
        name_of = {each.long_form: name for each in wordings if (name := self._spells(*each))}
        groups = group_variants(sorted(each.long_form for each in wordings), known=name_of.get)
        group_of = {long_form: at for at, group in enumerate(groups) for long_form in group}
        gathered = [_Gathered() for _ in groups]
        in_all: Counter[str] = Counter()
        for together, n_notes in counts.items():
            for wording in together:
                of_sense = gathered[group_of[wording.long_form]]
                of_sense.short_forms[wording.short_form] += n_notes
                of_sense.long_forms[wording.long_form] += n_notes
                in_all[wording.short_form] += n_notes
            for at in {group_of[wording.long_form] for wording in together}:
                gathered[at].n_notes += n_notes
        for each in gathered:
            n_of = each.short_forms
            short_form = min(n_of, key=lambda written: (-n_of[written], -in_all[written], written))
            forms = _forms(each.long_forms)
            known = (self._lookup(short_form, form) for form in forms)
            concept_id = next((sense.concept_id for sense in known if sense), None)
            yield ProposedSense(Sense(short_form, forms[0], forms, concept_id), each.n_notes)


@dataclass(slots=True)
class _Gathered:
    """What the spellings of one long form have together."""

    n_notes: int = 0
    short_forms: Counter[str] = field(default_factory=Counter)
    long_forms: Counter[str] = field(default_factory=Counter)


def _pieces(note: Note) -> Iterable[str]:
    """The texts within which definitions stand; what takes the place of a name, and what separates forms, ends one."""
    text = note.text
    sections = note.sections or ()
    for piece in [text[section.start : section.end] for section in sections] or [text]:
        yield MARK.sub(_BREAK, piece).replace(SEPARATOR, f"{SEPARATOR} ")


def _is_a_name(text: str, definition: Definition) -> bool:
    """ "Dr. Jane Roe (JR)" defines nobody's acronym."""
    before = text[max(0, definition.long_start - _LONGEST_TITLE) : definition.long_start]
    title = _WORD_BEFORE.search(before)
    return title is not None and title[1].lower() in TITLES


def _plain(short_form: str) -> str:
    return short_form.casefold().replace(".", "")


def _forms(counts: Counter[str]) -> tuple[str, ...]:
    """The ways to write, the most frequent first, each in its most frequent case (or that with fewest capitals)."""
    by_case: dict[str, Counter[str]] = {}
    for form, n in counts.items():
        by_case.setdefault(form.casefold(), Counter())[form] += n
    cases = [
        (-cased.total(), min(cased, key=lambda form: (-cased[form], sum(map(str.isupper, form)), form)))
        for cased in by_case.values()
    ]
    return tuple(form for _, form in sorted(cases))


def _rank(proposed: ProposedSense) -> tuple[str, str, int, str]:
    short_form = proposed.sense.short_form
    return short_form.casefold(), short_form, -proposed.n_notes, proposed.sense.long_form
