"""A note and its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


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
    metadata: Mapping[str, str] = field(
        default_factory=dict
    )  # document-level, such as {"category": "Nursing"}
    sections: tuple[Section, ...] | None = None  # the file's own, where it has them
