"""A note and its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


def given_id(note_id: str) -> str:
    """Return the id in the note's own file if that names a source ("clinic/7" of "train/clinic/7"), else the whole id.

    The same note in another file is recognised by this id.
    """
    rest = note_id.partition("/")[2]
    return rest if "/" in rest else note_id


class Section(NamedTuple):
    """A header and the text under it: `text[start:end]`, whose body begins at `body_start`.

    Sections of a note touch each other and cover it exactly. Text before the first header is a section
    whose `header` is None.
    """

    header: str | None  # as written, without numbering, colon and surrounding space
    name: str  # canonical name, upper case; "" for no section
    start: int
    body_start: int
    end: int


def metadata_text(value: object) -> str:
    """Return a value of metadata as text: 7.0, as in a column of numbers with gaps, is 7; a missing one is empty."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if is_missing(value) else str(value)


def is_missing(value: object) -> bool:
    """Whether a value is None, or what pandas writes for a missing one."""
    return not isinstance(value, str) and str(value) in ("None", "nan", "NaT", "<NA>")


@dataclass(frozen=True, slots=True)
class Note:
    """One document as it was read. `id` is `source/id` and stays the same everywhere."""

    id: str
    text: str = field(repr=False)  # patient data: never in a log or a traceback
    metadata: Mapping[str, str] = field(default_factory=dict)  # such as {"category": "Nursing"}
    sections: tuple[Section, ...] | None = None  # if the file gives them
