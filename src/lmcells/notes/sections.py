"""From the headers that a finder saw to sections that cover the note exactly."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from lmcells.notes.note import Section

SectionFinder = Callable[[str], tuple[Section, ...]]


class Header(NamedTuple):
    """A header as found: `text[start:body_start]` holds it with its numbering and colon."""

    start: int
    body_start: int
    raw: str  # as written, without numbering, colon and surrounding space
    name: str  # canonical


def cover(text_length: int, headers: Sequence[Header]) -> tuple[Section, ...]:
    """Turn headers, in the order of the text and not overlapping, into sections that touch and cover it all.

    Text before the first header is "no section": it never belongs to what came before, least of all to the
    previous note. A header with no body still ends the previous section. An empty note has no sections.
    """
    first = headers[0].start if headers else text_length
    sections = [Section(None, "", 0, 0, first)] if first > 0 else []
    ends = [header.start for header in headers[1:]] + [text_length]
    sections += [
        Section(raw, name, start, body_start, end)
        for (start, body_start, raw, name), end in zip(headers, ends, strict=False)
    ]
    return tuple(sections)


@lru_cache(maxsize=4096)
def upper_name(header: str) -> str:
    """Name a header after itself: upper case, white space collapsed."""
    return " ".join(header.upper().split())
