"""What clients send, checked by pydantic and described with examples in the schema."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from lmcells.service import examples
from lmcells.service.message import Message, Name, Offset, Text, several

MOST_EDITS = 1_000
MOST_SECTIONS = 5_000


class SectionMessage(Message):
    """A section of the caller's own, at `text[start:end]`; sections are in order and do not overlap."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"start": 0, "end": 48, "header": "PMH"}]})

    start: Offset
    end: Offset
    header: Text | None = None


class SenseName(Message):
    """A sense of the inventory, or all senses of a short form."""

    model_config = ConfigDict(json_schema_extra={"examples": examples.EDITS["remove"]})

    short_form: Name
    long_form: Name | None = None


class SenseMessage(Message):
    """A long form that a short form may stand for, and the ways in which it is written out."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.SENSE]})

    short_form: Name
    long_form: Name
    forms: tuple[Name, ...] = several("pars tensa", default=(), max_length=100)
    concept_id: Name | None = None


class InventoryEdits(Message):
    """Changes to the inventory for one request: what is removed must be there, what is added must not."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.EDITS]})

    add: tuple[SenseMessage, ...] = several(examples.SENSE, default=(), max_length=MOST_EDITS)
    remove: tuple[SenseName, ...] = several(examples.EDITS["remove"][0], default=(), max_length=MOST_EDITS)


class NoteMessage(Message):
    """One note, with sections of the caller's own, or none to have them found."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "note-1", "text": examples.NOTE}]})

    text: Text = Field(repr=False)
    id: Text | None = None
    sections: tuple[SectionMessage, ...] | None = Field(
        default=None, strict=False, max_length=MOST_SECTIONS, examples=[None]
    )


class Options(Message):
    """How to expand, for all notes of a request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"expanded_text": "replace", "explain": True}]})

    inventory: InventoryEdits | None = None
    expanded_text: Literal["replace", "append"] | None = Field(
        default=None, description="also answer the text with its short forms written out"
    )
    explain: bool = Field(default=False, description="also answer what the model leaned on")


class OneNote(Options, NoteMessage):
    """A request to expand one note."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": examples.NOTE},
                {
                    "text": examples.NOTE,
                    "expanded_text": "replace",
                    "explain": True,
                    "inventory": examples.EDITS,
                },
            ]
        }
    )


class ManyNotes(Options):
    """A request to expand several notes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"notes": [{"id": "note-1", "text": examples.NOTE}, {"id": "note-2", "text": "PT 12 s."}]}
            ]
        }
    )

    notes: tuple[NoteMessage, ...] = several({"id": "note-1", "text": examples.NOTE})


def _which(given: Any) -> str:
    return "many" if isinstance(given, dict) and "notes" in given else "one"


ExpandRequest = Annotated[
    Annotated[OneNote, Tag("one")] | Annotated[ManyNotes, Tag("many")], Discriminator(_which)
]
