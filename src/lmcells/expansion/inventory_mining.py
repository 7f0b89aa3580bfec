"""Proposing a sense inventory from the abbreviation definitions in notes: "atrial fibrillation (AF)".

    definitions = DefinitionCounts(known=shipped_inventory())
    for note in read_notes(path, report=report):
        definitions.add(note)
    found = [sense for sense, n_notes in definitions.propose() if n_notes > 1]
    save_inventory(SenseInventory.from_senses(found), Path("senses.csv"))

Only distinct definitions are kept in memory, with the number of notes that have each.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from lmcells.expansion.inventory import Sense, SenseInventory, SenseLookup, form_key, plain_short_form
from lmcells.expansion.inventory_check import GENERIC, content_stems, within_edits
from lmcells.expansion.inventory_files import SEPARATOR
from lmcells.expansion.ordinary_words import TITLES
from lmcells.notes.definitions import Definition, find_definitions
from lmcells.notes.note import Note
from lmcells.notes.tokens import MARK

# Spellings of a long form differ in case, hyphens, number, accents, British or American spelling, and typos. Words are
# compared as in `inventory_check`, letters more strictly: "hypertension" and "hypotension" stay apart, and so do
# "creatine" and "creatinine".

_SHORTEST_TYPO = 6  # letters: too many shorter words are one letter apart, such as "optic" and "otic"
# Map singular and plural of Greek and Latin words, and British and American spellings, to one form (not always a word).
_ALIKE = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=...)sis$", "se"),  # thrombosis, thromboses
        (r"(?<=..[bcdegl])i$", "us"),  # emboli, embolus; not multi
        (r"(?<=...)um$", "a"),  # medium, media
        (r"(?<=..[lr])ion$", "ia"),  # ganglion, criteria
        (r"woman$", "women"),
        (r"o?oe|ae", "e"),  # gastrooesophageal, haemoglobin
        (r"our(?!t)", "or"),  # tumour, behavioural
        (r"([iy])s(?=(?:e|ed|er|ing|ation)$)", r"\1z"),  # randomised, analyse
        (r"sulph", "sulf"),
        (r"leuco", "leuko"),
        (r"ll(?=(?:ed|ing)$)", "l"),  # labelled
        (r"tre$", "ter"),
        (r"(?<=m)me$", ""),  # programme
        (r"gue$", "g"),  # analogue
    )
)


def group_variants(
    long_forms: Iterable[str], *, known: Callable[[str], Hashable] = lambda _: None
) -> list[list[str]]:
    """Group the spellings of the long forms of one short form; `known` has the sense names of known ones.

    Groups are transitive.
    """
    connected = _Connected()
    by_rest: dict[Hashable, list[tuple[str, str]]] = {}
    given = list(dict.fromkeys(long_forms))
    for long_form in given:
        bare = _bare(long_form)
        words = tuple(map(_alike, form_key(bare)))
        for key in (_letters(bare), *_contents(words), ("known", known(long_form))):
            if key[1]:
                connected.join(long_form, key)
        for at, word in enumerate(words):
            if len(word) >= _SHORTEST_TYPO and word.isalpha():
                rest = (at, *words[:at], *words[at + 1 :])
                by_rest.setdefault(rest, []).append((word, long_form))
    for alike_but_one in by_rest.values():
        for (word, first), (other, second) in combinations(alike_but_one, 2):
            if is_typo(word, other):
                connected.join(first, second)
    groups: dict[Hashable, list[str]] = {}
    for long_form in given:
        groups.setdefault(connected.root(long_form), []).append(long_form)
    return list(groups.values())


def is_typo(word: str, other: str) -> bool:
    """Whether one word has an extra letter, or a letter moved; with a letter replaced it may be another word."""
    if len(word) != len(other):
        return within_edits(word, other, 1)
    return sorted(word) == sorted(other) and within_edits(word, other, 2)


def _bare(long_form: str) -> str:
    """Remove case, accents and ligatures."""
    decomposed = unicodedata.normalize("NFKD", long_form.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _alike(word: str) -> str:
    for pattern, replacement in _ALIKE:
        word = pattern.sub(replacement, word)
    return word


def _letters(bare: str) -> tuple[str, Hashable]:
    """Return a key shared by "trans-rectal", "trans rectal" and "transrectals"."""
    return "letters", tuple(map(_alike, form_key("".join(filter(str.isalnum, bare)))))


def _contents(words: tuple[str, ...]) -> Iterator[tuple[str, Hashable]]:
    """Yield the content words, with and without generic ones."""
    # Single letters count: "influenza A virus" is not B. A lone s is the rest of a possessive.
    letters = frozenset(word for word in words if len(word) == 1 and word not in "as")
    stems = content_stems(" ".join(words)) | letters
    yield "words", stems
    yield "specific words", stems - _GENERIC_STEMS or stems


_GENERIC_STEMS = content_stems(" ".join(map(_alike, GENERIC)))


class _Connected:
    """Connected components (union-find)."""

    def __init__(self) -> None:
        self._towards: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        path = []
        while (towards := self._towards.setdefault(thing, thing)) != thing:
            path.append(thing)
            thing = towards
        self._towards.update(dict.fromkeys(path, thing))
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        self._towards[self.root(other)] = self.root(one)


_BREAK = "|"  # no definition crosses it
_WORD_BEFORE = re.compile(r"\b([A-Z][a-z]+)\.?\s+\Z")
_LONGEST_TITLE = 12  # characters, with the space after it


class Wording(NamedTuple):
    """A short form and a long form, as in a definition."""

    short_form: str
    long_form: str


class ProposedSense(NamedTuple):
    """A sense, and the number of notes that define it."""

    sense: Sense
    n_notes: int


class DefinitionCounts:
    """Counts the notes that define each short form, by long form.

    The long forms of `known` are recognised even where the letters do not match: "left eye (OS)".
    """

    def __init__(self, known: SenseInventory | None = None) -> None:
        self.n_notes = 0
        self.n_definitions = 0
        self._n_kept = 0  # distinct definitions of `add_counts`
        self._lookup = SenseLookup(known or SenseInventory())
        # By short form without case and dots: how many notes define it in exactly these ways.
        self._n_notes_with: dict[str, Counter[frozenset[Wording]]] = {}

    @property
    def n_wordings(self) -> int:
        """The number of distinct definitions."""
        return sum(
            len({wording for wordings in counts for wording in wordings})
            for counts in self._n_notes_with.values()
        )

    def add(self, note: Note) -> None:
        """Count the definitions of a note, each wording once; none crosses a section given by the file."""
        self.n_notes += 1
        defined: dict[str, set[Wording]] = {}
        for text in _pieces(note):
            for definition in find_definitions(text, self._lookup):
                if not _is_a_name(text, definition):
                    self.n_definitions += 1
                    wording = Wording(definition.short_form, definition.long_form)
                    defined.setdefault(plain_short_form(definition.short_form), set()).add(wording)
        for plain, wordings in defined.items():
            self._n_notes_with.setdefault(plain, Counter())[frozenset(wordings)] += 1

    def counts(self) -> Iterator[tuple[frozenset[Wording], int]]:
        """Yield sets of wordings that occur together in notes, and the number of these notes."""
        for counts in self._n_notes_with.values():
            yield from counts.items()

    def add_counts(self, wordings: Iterable[Iterable[str]], n_notes: int, *, most: int) -> None:
        """Add the `counts` of other notes; beyond `most` distinct definitions the rarest are dropped."""
        together = frozenset(Wording(*each) for each in wordings)
        counts = self._n_notes_with.setdefault(plain_short_form(next(iter(together)).short_form), Counter())
        self._n_kept += together not in counts
        counts[together] += n_notes
        if self._n_kept > most:
            least = sorted(n for each in self._n_notes_with.values() for n in each.values())[most // 4]
            kept = {
                plain: Counter({together: n for together, n in each.items() if n > least})
                for plain, each in self._n_notes_with.items()
            }
            self._n_notes_with = {plain: each for plain, each in kept.items() if each}
            self._n_kept = sum(map(len, kept.values()))

    def propose(self) -> list[ProposedSense]:
        """Merge the spellings of each long form into a sense; by short form, most frequent first."""
        return sorted(
            (each for counts in self._n_notes_with.values() for each in self._senses(counts)), key=_rank
        )

    def _senses(self, counts: Counter[frozenset[Wording]]) -> Iterator[ProposedSense]:
        """Yield the senses of short forms that differ only in case and dots."""
        wordings = sorted({wording for together in counts for wording in together})
        # A known sense keeps its name however the short form is written.
        name_of = {each.long_form: sense.long_form for each in wordings if (sense := self._lookup(*each))}
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
    """Counts of the spellings of one long form."""

    n_notes: int = 0
    short_forms: Counter[str] = field(default_factory=Counter)
    long_forms: Counter[str] = field(default_factory=Counter)


def _pieces(note: Note) -> Iterable[str]:
    """Return the pieces of a note to search; de-identification marks and separators end one."""
    text = note.text
    sections = note.sections or ()
    for piece in [text[section.start : section.end] for section in sections] or [text]:
        yield MARK.sub(_BREAK, piece).replace(SEPARATOR, f"{SEPARATOR} ")


def _is_a_name(text: str, definition: Definition) -> bool:
    """Whether it is a person's name: "Dr. Jane Roe (JR)"."""
    before = text[max(0, definition.long_start - _LONGEST_TITLE) : definition.long_start]
    title = _WORD_BEFORE.search(before)
    return title is not None and title[1].lower() in TITLES


def _forms(counts: Counter[str]) -> tuple[str, ...]:
    """Return the spellings, most frequent first, each in its most frequent case or, on a tie, with fewest capitals."""
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
