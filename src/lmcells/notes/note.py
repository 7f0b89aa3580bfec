"""A note and its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


def given_id(note_id: str) -> str:
    """The id that a file gave a note, where it names a source itself: "clinic/7" of "train/clinic/7"; else all of it.

    It is by this that a note is known again in another file.
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


@dataclass(frozen=True, slots=True)
class Note:
    """One document as it was read. `id` is `source/id` and stays the same everywhere."""

    id: str
    text: str = field(repr=False)  # patient data: never in a log or a traceback
    metadata: Mapping[str, str] = field(default_factory=dict)  # such as {"category": "Nursing"}
    sections: tuple[Section, ...] | None = None  # the file's own, where it has them
