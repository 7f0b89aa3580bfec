"""Short forms that a note defines, written out in a part of its sections.

"Fat mass (FM) fell. Changes in FM ..." is read as "Fat mass (FM) fell. Changes in fat mass ...": so a long form is
known by the places where people write the short form, and the short form stays a word of its own in other sections.

A section writes out all mentions of a short form or none: one that stayed would stand beside the gap that its own long
form leaves. What stays is the mention that is given a meaning, "(FM)", and what is joined to a word before it, as in
"non-FM" and "BMI/FM". Which sections do is a matter of the note's id, the section's number and the short form alone, so
that workers and order change nothing.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from lmcells.notes.definitions import Definition, find_definitions
from lmcells.notes.note import Section
from lmcells.notes.sections import Header, cover

_HASHES = 1 << 32
_ENDING = re.compile(r"s?(?![A-Za-z0-9+])")  # of a mention: not FM in FM2


class _Change(NamedTuple):
    """`text[start:end]` becomes this."""

    start: int
    end: int
    written: str


def spell_out(text: str, headers: list[Header], *, note_id: str, share: float) -> tuple[str, list[Header]]:
    """Write short forms out in a share of the sections; return the text and its headers where they now stand."""
    definitions = find_definitions(text)
    if not definitions:
        return text, headers
    bodies = _Bodies(cover(len(text), headers))
    # A long form does not reach across a header, and a header defines nothing.
    definitions = [each for each in definitions if bodies.holding(*_extent(each)) is not None]
    if not definitions:
        return text, headers
    changes = list(_changes(text, definitions, bodies, note_id=note_id, share=share))
    return _apply(changes, text), _move(headers, changes)


class _Bodies:
    """The bodies of a note's sections."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._sections = sections
        self._starts = [section.start for section in sections]

    def holding(self, start: int, end: int) -> int | None:
        """Return the number of the section whose body holds all of `text[start:end]`, if one does."""
        number = bisect_right(self._starts, start) - 1
        section = self._sections[number]
        return number if section.body_start <= start and end <= section.end else None


def _extent(definition: Definition) -> tuple[int, int]:
    return min(definition.start, definition.long_start), max(definition.end, definition.long_end)


def _changes(
    text: str, definitions: Sequence[Definition], bodies: _Bodies, *, note_id: str, share: float
) -> Iterable[_Change]:
    long_forms = _long_forms(definitions)
    defining = {each.start for each in definitions}

    @cache
    def is_written_out(section: int, short_form: str) -> bool:
        key = "\0".join((note_id, str(section), short_form)).encode("utf-8", "surrogatepass")
        # No checksum: those of two sections would differ in the same bits in every note.
        return int.from_bytes(blake2b(key, digest_size=4).digest()) < share * _HASHES

    for start, end, short_form in _mentions(text, long_forms):
        section = bodies.holding(start, end)
        if section is not None and start not in defining and is_written_out(section, short_form):
            plural = text[start + len(short_form) : end]
            long_form = long_forms[short_form]  # "adverse events (AEs)" defines a plural
            yield _Change(start, end, long_form if long_form.endswith("s") else long_form + plural)


def _long_forms(definitions: Iterable[Definition]) -> dict[str, str]:
    """Return the most frequent long form of each short form, in lower case; of several, the first."""
    counts: dict[str, Counter[str]] = {}
    for each in definitions:
        counts.setdefault(each.short_form, Counter())[each.long_form.lower()] += 1
    return {short_form: count.most_common(1)[0][0] for short_form, count in counts.items()}


def _mentions(text: str, short_forms: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where short forms stand exactly as written, or with the s of a plural; the longest where several could.

    A pattern of all of them would take time for each at every place, and a note may define thousands.
    """
    firsts = "".join(sorted({short_form[0] for short_form in short_forms}))  # letters and digits
    lengths = sorted({len(short_form) for short_form in short_forms}, reverse=True)
    done = 0
    for place in re.finditer(rf"(?<![A-Za-z0-9/&+-])(?=[{firsts}])", text):  # not in FFM, A/FM or non-FM
        start = place.start()
        if start < done:
            continue
        for length in lengths:
            short_form = text[start : start + length]
            if short_form in short_forms and (ending := _ENDING.match(text, start + length)):
                done = ending.end()
                yield start, done, short_form
                break


def _apply(changes: Sequence[_Change], text: str) -> str:
    pieces: list[str] = []
    done = 0
    for change in changes:
        pieces += (text[done : change.start], change.written)
        done = change.end
    return "".join((*pieces, text[done:]))


def _move(headers: Iterable[Header], changes: Sequence[_Change]) -> list[Header]:
    """Return the headers where they stand after the changes, none of which is in a header."""
    ends = [change.end for change in changes]
    growths = (len(change.written) - (change.end - change.start) for change in changes)
    shifts = list(accumulate(growths, initial=0))  # by how many changes are before a place

    def moved(place: int) -> int:
        return place + shifts[bisect_right(ends, place)]

    return [(moved(start), moved(body_start), raw, name) for start, body_start, raw, name in headers]
