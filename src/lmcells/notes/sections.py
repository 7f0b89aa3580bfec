"""From the headers that a finder saw to sections that cover the note exactly."""

from collections.abc import Callable
from functools import lru_cache

from lmcells.notes.note import Section

SectionFinder = Callable[[str], tuple[Section, ...]]


# A header as found: its start, where its body starts, itself as written (without numbering, colon and surrounding
# space; None for text under no header) and its canonical name. A plain tuple: a large corpus has very many.
Header = tuple[int, int, str | None, str]
NO_HEADER: Header = (0, 0, None, "")


def with_opening(headers: list[Header], *, text_length: int) -> list[Header]:
    """Begin with "no section", unless the text begins with a header or is empty.

    Text before the first header never belongs to what came before, least of all to the previous note.
    """
    first = headers[0][0] if headers else text_length
    return [NO_HEADER, *headers] if first > 0 else headers


def cover(text_length: int, headers: list[Header]) -> tuple[Section, ...]:
    """Turn headers, in the order of the text and not overlapping, into sections that touch and cover it all.

    A header with no body still ends the previous section. An empty note has no sections.
    """
    headers = with_opening(headers, text_length=text_length)
    ends = [start for start, _, _, _ in headers[1:]] + [text_length]
    return tuple(
        Section(raw, name, start, body_start, end)
        for (start, body_start, raw, name), end in zip(headers, ends, strict=False)
    )


@lru_cache(maxsize=4096)
def upper_name(header: str) -> str:
    """Name a header after itself: upper case, white space collapsed."""
    return " ".join(header.upper().split())
