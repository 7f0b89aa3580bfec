"""The caller's own sections, checked: objects, dicts or tuples with a start, an end and a header."""

from collections.abc import Mapping, Sequence
from typing import Any

from lmcells.errors import InputError
from lmcells.notes.note import Section
from lmcells.notes.sections import upper_name

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
