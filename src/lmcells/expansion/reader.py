"""Reading a note: its short forms, the section of each, and its abbreviation definitions."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from lmcells.errors import InputError
from lmcells.expansion.expansion import Candidate, Source
from lmcells.expansion.finder import Found, ShortFormFinder, overlaps, without_marks, without_overlaps
from lmcells.expansion.grammar import find_codes, find_counted
from lmcells.expansion.inventory import Sense, SenseInventory, SenseLookup, form_key
from lmcells.expansion.layers import Allowed, ContextRules
from lmcells.expansion.letters import LetterSenses
from lmcells.expansion.look_alikes import QUANTITY_FOLLOWS, LookAlikes, Written
from lmcells.expansion.ordinary_words import NOT_SHORTHAND, WITH_ORDINARY_READING
from lmcells.expansion.windows import Mention, TokenizedText
from lmcells.notes.definitions import Definition, find_definitions
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import section_finder
from lmcells.notes.sections import Alias, Kind, find_alias, load_aliases, upper_name
from lmcells.notes.tokens import STOP_WORDS

SECTION_STYLES = ("rules", "paper", "none")
DEFINITION_PRECISION = 0.99
"""Of 210 definitions found in papers and read by eye, 209 were right."""
GRAMMAR_PRECISION = 0.98
SINGLE_SENSE_PRECISION = 0.95
"""The probability of short forms with one sense that are written exactly as in the inventory: they are not ranked."""

_SPACE = re.compile(r"\s")
_BEFORE_LAST_SPACE = re.compile(r".*(?=\s)", re.DOTALL)
_OPENS_LINE = re.compile(r"(?:^|\n|\b(?:NOTE|Note): )[ \t>*•-]*$")
_HEADER_FOLLOWS = re.compile(r"[ \t]{0,2}(:|-(?!\w)|-[ \t])(?![ \t]*[<>~]?[ \t]*\d)")
_INNER_SHORT_FORM = re.compile(r"\b[A-Z]{2,6}\b")
_OF_A_YEAR = re.compile(r"\s(?:of|in)\s\S*\d\S*$")  # "Clinical Laboratory Improvement Amendments of 1988"
_CAPITAL = re.compile("[A-Z]")
_REACH = 500  # characters of a long section on either side of a short form
_ALLOWED = "Allowed: (start, end, header), a dict or an object with these, header may be None"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A short form in a note: defined by the note, a rule or the grammar, or else a mention to rank.

    It is ranked among its senses in the inventory or, with the source "letters", among those that its letters suggest.
    """

    start: int
    end: int
    short_form: str
    section: str | None
    defined: Candidate | None
    mention: Mention | None
    source: Source = "model"
    allowed: tuple[int, ...] | None = None  # indices of the senses allowed here; None: all

    @property
    def ranked(self) -> Mention | None:
        """The mention, if it is to rank among its senses in the inventory."""
        return None if self.source == "letters" else self.mention


class _Definitions:
    """What a note says about one spelling of a short form, in order."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.candidates: list[Candidate] = []
        self.distinct: dict[tuple[str, ...], Candidate] = {}

    def add(self, start: int, candidate: Candidate) -> None:
        self.starts.append(start)
        self.candidates.append(candidate)
        self.distinct[form_key(candidate.long_form)] = candidate


_Meanings = dict[str, dict[str, _Definitions]]  # by short form, and by its spelling without marks


class NoteReader:
    """Finds the occurrences of short forms in notes, for one inventory."""

    def __init__(
        self,
        inventory: SenseInventory,
        *,
        sections: str = "rules",
        letters: LetterSenses | None = None,
        codes: bool = False,
        header_rules: Path | None = None,
    ) -> None:
        if sections not in SECTION_STYLES:
            raise InputError(f"sections: found {sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        self._sections = section_finder(sections, header_rules=header_rules)
        self._aliases = load_aliases(header_rules)
        self._letters = letters
        self._codes = codes
        self._set_inventory(inventory, ShortFormFinder(inventory))

    def over(self, inventory: SenseInventory) -> Self:
        """Return a reader with the same settings for another inventory."""
        reader = copy(self)
        reader._set_inventory(inventory, self._find.over(inventory))
        return reader

    def _set_inventory(self, inventory: SenseInventory, find: ShortFormFinder) -> None:
        self._inventory = inventory
        self._find = find
        self._lookup = SenseLookup(inventory)
        self._rules = ContextRules(inventory, self._aliases)
        self._header_senses: dict[str, tuple[Alias | None, Sense | None]] = {}

    def __call__(
        self,
        text: str,
        sections: Sequence[Any] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Occurrence]:
        """Return the occurrences in order; `sections` and `metadata` are the note's, if the caller knows them."""
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InputError(f"metadata are names and values (a dict), found: {type(metadata).__name__}.")
        note = TokenizedText.of(text)
        found = self._find(text, note.tokens)
        definitions = find_definitions(text, self._lookup)
        counted = find_counted(text) + (find_codes(text) if self._codes else [])
        if counted:
            ruled = [each for each in found if self._is_ruled(each.short_form)]
            counted = [
                each
                for each in counted
                if not overlaps(ruled, each.start, each.end)
                and text[each.start : each.end] not in self._inventory.rules
            ]
        read_out = {(each.start, each.end): each.long_form for each in counted}
        if read_out:
            found = without_overlaps([*found, *(Found(*span, text[slice(*span)]) for span in read_out)])
        by_letters: set[Found] = set()
        if self._letters is not None:
            by_letters = set(self._letters.find(text, note.tokens, found))
            found = sorted([*found, *by_letters])
        if sections is None:
            covering = self._sections(Note("", text))
        else:
            covering = check_sections(sections, text_length=len(text))
        meanings, own = self._meanings(found, definitions)
        if own:  # defined by this note, and not in the inventory
            found = without_overlaps([*found, *ShortFormFinder(own, exact=True)(text, note.tokens)])
        if of_headers := [each for section in covering for each in _header_letter(text, section)]:
            found = without_overlaps([*found, *of_headers])
        starts = [section.start for section in covering]
        occurrences = []
        for each in found:
            section = covering[bisect_right(starts, each.start) - 1]
            allowed = self._rules(each.short_form, section.name, metadata)
            defined, source = self._known(text, each, section, meanings, read_out, allowed=allowed)
            if each in by_letters and defined is None:
                source = "letters"
            elif defined is None and not self._senses(each, allowed):
                continue  # no sense is allowed, or it precedes two definitions
            mention = _mention(note, each, section) if defined is None else None
            may_be = None if allowed is None else allowed.senses
            occurrences.append(Occurrence(*each, section.name or None, defined, mention, source, may_be))
        return occurrences

    def _known(
        self,
        text: str,
        found: Found,
        section: Section,
        meanings: _Meanings,
        read_out: Mapping[tuple[int, int], str],
        *,
        allowed: Allowed | None,
    ) -> tuple[Candidate | None, Source]:
        """Return the long form of an occurrence that needs no ranking, and its source."""
        given = meanings.get(found.short_form)
        if given and (defined := _defined(text, found, given)) is not None:
            return defined, "definition"
        if allowed is not None and allowed.pinned is not None:
            return Candidate(allowed.pinned.long_form, 1.0, allowed.pinned.concept_id), "pinned"
        if found[:2] in read_out:
            return Candidate(read_out[found[:2]], GRAMMAR_PRECISION), "grammar"
        named = self._named_by_header(text, found, section)
        senses = self._senses(found, allowed)
        if named is not None and (
            allowed is None or named.long_form in {sense.long_form for sense in senses}
        ):
            return named, "header"
        if len(senses) == 1 and _is_plain_acronym(text, found):
            return Candidate(senses[0].long_form, SINGLE_SENSE_PRECISION, senses[0].concept_id), "model"
        return None, "model"

    def _senses(self, found: Found, allowed: Allowed | None) -> Sequence[Sense]:
        """Return the senses that a short form may have here."""
        senses = self._inventory.by_short_form.get(found.short_form, ())
        return senses if allowed is None else [senses[at] for at in allowed.senses]

    def _is_ruled(self, short_form: str) -> bool:
        """Whether the inventory has rules for a short form, or forbids all its senses."""
        return short_form in self._inventory.rules or not self._inventory.by_short_form[short_form]

    def _meanings(self, found: list[Found], definitions: list[Definition]) -> tuple[_Meanings, list[str]]:
        """Group the definitions of a text by short form, and collect the short forms that the inventory lacks."""
        meanings: _Meanings = {}
        found_at = {each.start: each.short_form for each in found} if definitions else {}
        for definition in definitions:
            short_form = found_at.get(definition.start, definition.short_form)
            sense = self._defined_sense(short_form, definition.long_form)
            candidate = Candidate(
                sense.long_form if sense else definition.long_form,
                DEFINITION_PRECISION,
                sense.concept_id if sense else None,
            )
            spellings = meanings.setdefault(short_form, {})
            spelling = spellings.setdefault(without_marks(definition.short_form), _Definitions())
            spelling.add(definition.start, candidate)
        return meanings, [short_form for short_form in meanings if short_form not in self._inventory]

    def _defined_sense(self, short_form: str, long_form: str) -> Sense | None:
        """Return the sense that a definition spells out, even with a short form in it: "Non-sustained VT (NSVT)"."""
        for form in (long_form, _OF_A_YEAR.sub("", long_form)):
            if (sense := self._lookup(short_form, form)) is not None:
                return sense
        for inner in _INNER_SHORT_FORM.finditer(long_form):
            for each in self._inventory.by_short_form.get(inner[0], ()):
                in_full = long_form[: inner.start()] + each.long_form + long_form[inner.end() :]
                if (sense := self._lookup(short_form, in_full)) is not None:
                    return sense
        return None

    def _named_by_header(self, text: str, found: Found, section: Section) -> Candidate | None:
        """ "PE:" as a header is the physical exam, by the alias table; so is "DH:" at the start of a line."""
        if found.end <= section.body_start and section.header == text[found.start : found.end]:
            if QUANTITY_FOLLOWS.match(text, found.end) and len(self._senses(found, None)) > 1:
                return None  # "PPH: 1.2 L" is no history
            sense = self._lookup(found.short_form, section.name) or self._header_sense(found.short_form)[1]
            if sense is None and len(section.header) == 1 and found.short_form not in self._inventory:
                return Candidate(section.name.lower(), DEFINITION_PRECISION)
        elif (sign := _HEADER_FOLLOWS.match(text, found.end)) and _OPENS_LINE.search(
            text, max(0, found.start - 12), found.start
        ):
            alias, sense = self._header_sense(found.short_form)
            may_be_part = alias is None or section.name in ("", alias.name, *alias.within)
            if (alias is None or alias.kind is Kind.PART) and not (sign[1] == ":" and may_be_part):
                return None
        else:
            return None
        return Candidate(sense.long_form, DEFINITION_PRECISION, sense.concept_id) if sense else None

    def _header_sense(self, short_form: str) -> tuple[Alias | None, Sense | None]:
        """Return the section that a short form names as a header, by the alias table, and its sense: "drug history".

        That is the first sense that names the same section. A sub-heading, and a short form that the table lacks, must
        have no other sense that names one.
        """
        if short_form not in self._header_senses:
            aliases, senses = load_aliases(), self._inventory.by_short_form
            own = find_alias(aliases, short_form)
            if short_form not in self._inventory:  # a note's own: nothing is kept of it
                return own, None
            kind = own.kind if own else Kind.SECTION
            named = {
                alias.name: sense
                for written in (short_form.upper(), short_form)  # "vs:" names what "VS:" names
                for sense in reversed(senses.get(written, ()))
                for alias in (find_alias(aliases, form) for form in (sense.long_form, *sense.forms))
                if alias is not None and alias.kind is kind
            }
            sense = named.get(own.name) if own else next(iter(named.values()), None)
            if (own is None or kind is Kind.PART) and any(each is not sense for each in named.values()):
                sense = None
            self._header_senses[short_form] = own, sense
        return self._header_senses[short_form]


def _header_letter(text: str, section: Section) -> Iterator[Found]:
    """ "O:" of a note with S, O, A and P: a header of one letter, with which the name of its section begins."""
    letter = section.header or ""
    if len(letter) == 1 and len(section.name) > 1 and section.name.startswith(letter):
        start = text.find(letter, section.start, section.body_start)
        if start >= 0:
            yield Found(start, start + 1, letter)


def _is_plain_acronym(text: str, found: Found) -> bool:
    """Whether it is written exactly as in the inventory: three capitals or more, or small letters, as in "Cr" and "vs".

    In any case if it has a slash or an ampersand ("p/w", "T&C"). Not an English word, such as "LOW" and "RICE": its
    ordinary reading competes with the sense.
    """
    written = text[found.start : found.end]
    if ("/" in written or "&" in written) and len(written) > 2:
        return written.lower() == found.short_form.lower()
    in_part = written[0].isupper() and written.upper() == found.short_form  # "HiPAA"
    if written != found.short_form and not (in_part and len(_CAPITAL.findall(written)) > 2):
        return False
    if not written.isupper():
        return len(written) > 1 and written.lower() not in NOT_SHORTHAND
    lower = written.lower()
    if lower in STOP_WORDS:  # "WHO grade III"
        return len(written) > 2 and not LookAlikes(text).is_shouted(Written(found.start, found.end, written))
    return len(written) > 2 and lower not in WITH_ORDINARY_READING


def _defined(text: str, found: Found, given: Mapping[str, _Definitions]) -> Candidate | None:
    """Return the long form of the last definition before a short form, or of the only one after it."""
    written = without_marks(text[found.start : found.end])
    fitting = [given[written[:n]] for n in range(len(written) + 1) if written[:n] in given]
    before = [
        (each.starts[n - 1], each.candidates[n - 1])
        for each in fitting
        if (n := bisect_right(each.starts, found.start))
    ]
    if before:
        return max(before, key=itemgetter(0))[1]
    if any(len(each.distinct) > 1 for each in fitting):
        return None
    distinct = {key: candidate for each in fitting for key, candidate in each.distinct.items()}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def _mention(note: TokenizedText, found: Found, section: Section) -> Mention:
    """Return a mention with the body of its section, or the part of a long one around it."""
    text = note.text
    first = section.body_start if found.start >= section.body_start else section.start
    last = section.end
    if last - first > 2 * _REACH:
        if found.start - _REACH > first:
            opening = _SPACE.search(text, found.start - _REACH, found.start)
            first = opening.end() if opening else found.start
        if found.end + _REACH < last:
            closing = _BEFORE_LAST_SPACE.match(text, found.end, found.end + _REACH)
            last = closing.end() if closing else found.end
    return Mention(
        text[first:last],
        found.start - first,
        found.end - first,
        found.short_form,
        section.name or None,
        note,
        first,
    )


def check_sections(given: Sequence[Any], *, text_length: int) -> tuple[Section, ...]:
    """Check the caller's sections, and fill gaps with "no section"."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"sections: found a {type(given).__name__}, allowed: a list. {_ALLOWED}.")
    sections: list[Section] = []
    position = 0
    for number, each in enumerate(given, start=1):
        section = _section(number, each)
        if not position <= section.start <= section.end <= text_length:
            raise InputError(
                f"sections: number {number} is {section.start}-{section.end}, the one before ends at {position}, the "
                f"text has {text_length:,} characters. Give them in order, without overlaps, within the text."
            )
        if not section.start <= section.body_start <= section.end:
            raise InputError(f"sections: the body of number {number} begins outside the section.")
        if section.start > position:
            sections.append(Section(None, "", position, position, section.start))
        sections.append(section)
        position = section.end
    if position < text_length:
        sections.append(Section(None, "", position, position, text_length))
    return tuple(sections)


def _section(number: int, given: Any) -> Section:
    if isinstance(given, Section):
        return given
    if isinstance(given, Mapping):
        values = [given.get(name) for name in ("start", "end", "header", "body_start")]
    elif isinstance(given, tuple | list):
        values = [*given, None] if len(given) == 3 else []
    else:
        values = [getattr(given, name, None) for name in ("start", "end", "header", "body_start")]
    start, end, header, body_start = values if len(values) == 4 else (None, None, None, None)
    if type(start) is not int or type(end) is not int:
        raise InputError(f"sections: number {number} has no start and end as whole numbers. {_ALLOWED}.")
    if not isinstance(header, str | None):
        raise InputError(f"sections: the header of number {number} is a {type(header).__name__}. {_ALLOWED}.")
    if body_start is not None and type(body_start) is not int:
        raise InputError(f"sections: body_start of number {number} is not a whole number. {_ALLOWED}.")
    name = upper_name(header) if header else ""
    return Section(header or None, name, start, start if body_start is None else body_start, end)
