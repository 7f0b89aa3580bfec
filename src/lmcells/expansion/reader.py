"""What there is to expand in a note: its short forms, the section of each, and what the note itself says they mean."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmcells.errors import InputError
from lmcells.expansion.expansion import Candidate
from lmcells.expansion.finder import Found, ShortFormFinder, without_marks, without_overlaps
from lmcells.expansion.inventory import SenseInventory, SenseLookup, form_key
from lmcells.expansion.windows import Mention
from lmcells.notes.definitions import Definition, find_definitions
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import section_finder
from lmcells.notes.sections import upper_name
from lmcells.notes.token_arrays import TokenArrays, find_tokens

# The caller's own sections, checked: objects, dicts or tuples with a start, an end and a header.


_ALLOWED = "Allowed: (start, end, header), a dict or an object with these, header may be None"


def check_sections(given: Sequence[Any], *, text_length: int) -> tuple[Section, ...]:
    """Return sections that cover the text: the given ones, and "no section" wherever there is none."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"sections: found a {type(given).__name__}, allowed: a list. {_ALLOWED}.")
    sections: list[Section] = []
    position = 0
    for number, each in enumerate(given, start=1):
        section = _section(number, each)
        if not position <= section.start <= section.end <= text_length:
            raise InputError(
                f"sections: number {number} is {section.start}-{section.end}, after {position} and in a text of "
                f"{text_length:,} characters. Give them in order, not overlapping, within the text."
            )
        if not section.start <= section.body_start <= section.end:
            raise InputError(f"sections: the body of number {number} begins outside of it.")
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


# What there is to expand in a note: its short forms, the section of each, and what the note itself says they mean.


SECTION_STYLES = ("rules", "paper", "none")
DEFINITION_PRECISION = 0.99
"""Of 210 definitions found in papers and read by eye, 209 were right."""

_SPACE = re.compile(r"\s")
_LAST_SPACE = re.compile(r"\s\S*\Z")
_REACH = (
    500  # characters on either side that hold the words a model reads; all of a long section would cost time
)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A short form in a note: defined by the note, or else a mention to be ranked."""

    start: int
    end: int
    short_form: str
    section: str | None
    defined: Candidate | None
    mention: Mention | None


class NoteReader:
    """Find what there is to expand in notes, for one inventory."""

    def __init__(self, inventory: SenseInventory, *, sections: str = "rules") -> None:
        if sections not in SECTION_STYLES:
            raise InputError(f"sections: found {sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        self._inventory = inventory
        self._find = ShortFormFinder(inventory)
        self._lookup = SenseLookup(inventory)
        self._sections = section_finder(sections)

    def __call__(self, text: str, sections: Sequence[Any] | None = None) -> list[Occurrence]:
        """Return the occurrences in order; `sections` are the caller's own."""
        tokens = find_tokens(text)
        found = self._find(text, tokens)
        definitions = find_definitions(text, self._spells)
        covering = self._cover(text, sections) if found or definitions else ()
        meanings, found = self._meanings(text, tokens, found, definitions)
        starts = [section.start for section in covering]
        bodies: dict[int, str] = {}
        occurrences = []
        for place in found:
            index = bisect_right(starts, place.start) - 1
            section = covering[index]
            defined = meanings.of(text, place) or self._named_by_header(text, place, section)
            mention = None
            if defined is None:
                if place.short_form not in self._inventory:
                    continue  # defined twice, and this one stands before both
                mention = _mention(text, place, section, bodies)
            occurrences.append(Occurrence(*place, section.name or None, defined, mention))
        return occurrences

    def _cover(self, text: str, sections: Sequence[Any] | None) -> tuple[Section, ...]:
        if sections is not None:
            return check_sections(sections, text_length=len(text))
        return self._sections(Note("", text))

    def _spells(self, short_form: str, words: str) -> str | None:
        sense = self._lookup(short_form, words)
        return sense.long_form if sense else None

    def _meanings(
        self, text: str, tokens: TokenArrays, found: list[Found], definitions: list[Definition]
    ) -> tuple["_Meanings", list[Found]]:
        """Gather what the text defines, and find the short forms that it alone knows."""
        meanings = _Meanings()
        if not definitions:
            return meanings, found
        found_at = {place.start: place.short_form for place in found}
        own: dict[str, None] = {}
        for definition in definitions:
            key = found_at.get(definition.start, definition.short_form)
            if key not in self._inventory:
                own[key] = None
            sense = self._lookup(key, definition.long_form)
            candidate = Candidate(
                sense.long_form if sense else definition.long_form,
                DEFINITION_PRECISION,
                sense.concept_id if sense else None,
            )
            meanings.add(key, definition, candidate)
        if own:
            found = without_overlaps([*found, *ShortFormFinder(own, exact=True)(text, tokens)])
        return meanings, found

    def _named_by_header(self, text: str, place: Found, section: Section) -> Candidate | None:
        """ "PE:" as a header is the physical exam, by the table of headers."""
        if place.end > section.body_start or section.header != text[place.start : place.end]:
            return None
        sense = self._lookup(place.short_form, section.name)
        return Candidate(sense.long_form, DEFINITION_PRECISION, sense.concept_id) if sense else None


class _Meanings:
    """The definitions of a text by short form, each with what it says."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[Definition, Candidate]]] = {}

    def add(self, short_form: str, definition: Definition, candidate: Candidate) -> None:
        self._of.setdefault(short_form, []).append((definition, candidate))

    def of(self, text: str, place: Found) -> Candidate | None:
        """Return what the last definition before it says, or the only one after it, for this way of writing it."""
        if place.short_form not in self._of:
            return None
        written = without_marks(text[place.start : place.end])
        given = [
            each
            for each in self._of[place.short_form]
            if written.startswith(without_marks(each[0].short_form))
        ]
        before = [candidate for definition, candidate in given if definition.start <= place.start]
        if before:
            return before[-1]
        distinct = {form_key(candidate.long_form): candidate for _, candidate in given}
        return next(iter(distinct.values())) if len(distinct) == 1 else None


def _mention(text: str, place: Found, section: Section, bodies: dict[int, str]) -> Mention:
    """Return the mention with the body of its section, or a part of a long one; mentions in one body share it."""
    first = section.body_start if place.start >= section.body_start else section.start
    last = section.end
    if last - first > 2 * _REACH:
        if place.start - _REACH > first:
            opening = _SPACE.search(text, place.start - _REACH, place.start)
            first = opening.end() if opening else place.start
        if place.end + _REACH < last:
            closing = _LAST_SPACE.search(text, place.end, place.end + _REACH)
            last = closing.start() if closing else place.end
        body = text[first:last]
    else:
        body = bodies.setdefault(first, text[first:last])
    return Mention(body, place.start - first, place.end - first, place.short_form, section.name or None)
