"""What the service answers, as pydantic models: the schema's, and for clients that are written in Python."""

from typing import Literal, Self

from pydantic import ConfigDict, Field

from lmcells.expansion import Expansion
from lmcells.service import examples
from lmcells.service.message import Message, Offset, Probability, several


class CandidateMessage(Message):
    """A long form that a short form may stand for, and how likely that is where it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": examples.CANDIDATES})

    long_form: str
    probability: Probability
    concept_id: str | None


class ExpansionMessage(Message):
    """A short form written at `text[start:end]` and what it stands for: the fields of `lmcells.Expansion`."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.EXPANSION]})

    start: Offset
    end: Offset
    short_form: str
    section: str | None
    long_form: str | None
    probability: Probability | None
    source: Literal["model", "definition"]
    candidates: tuple[CandidateMessage, ...] = several(examples.CANDIDATES[0])
    abstained: str | None

    @classmethod
    def from_expansion(cls, expansion: Expansion) -> Self:
        """The message that says what an expansion says."""
        return cls.model_validate(expansion.to_dict())

    def to_expansion(self) -> Expansion:
        """The expansion again."""
        return Expansion.from_dict(self.model_dump())


class WordMessage(Message):
    """A word at `text[start:end]` that was read, its share of the attention, and its effect.

    The effect is by how much the log-odds of the likeliest sense would fall without it; null where there is nothing to
    hide or to compare, and beyond the first 200 ambiguous short forms of a note.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [examples.WORD]})

    start: Offset
    end: Offset
    word: str
    weight: float
    effect: float | None


class ExplanationMessage(Message):
    """How much the section weighed against the words, 0 to 1, its effect, and the words that were read."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.EXPLANATION]})

    section_weight: float
    section_effect: float | None
    words: tuple[WordMessage, ...] = several(examples.WORD)


class OffsetMapMessage(Message):
    """Pieces of the text that were replaced: `[starts[i], ends[i])` became `[new_starts[i], new_ends[i])`."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.OFFSETS]})

    starts: tuple[int, ...] = several(33)
    ends: tuple[int, ...] = several(35)
    new_starts: tuple[int, ...] = several(33)
    new_ends: tuple[int, ...] = several(49)


class ExpandedTextMessage(Message):
    """The text with its short forms written out, and the map between its offsets and those of the original."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.EXPANDED]})

    text: str = Field(repr=False)
    offset_map: OffsetMapMessage


class NoteAnswer(Message):
    """The expansions of a note in order; `explanations` has one for each, null for one that the note defines."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.ANSWER]})

    id: str | None
    expansions: tuple[ExpansionMessage, ...] = several(examples.EXPANSION)
    explanations: tuple[ExplanationMessage | None, ...] | None = Field(
        strict=False, examples=[[examples.EXPLANATION]]
    )
    expanded: ExpandedTextMessage | None


class ManyAnswers(Message):
    """One answer a note, in the order of the request."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"notes": [examples.ANSWER | {"id": "note-1"}]}]}
    )

    notes: tuple[NoteAnswer, ...] = several(examples.ANSWER)


class EntrySense(Message):
    """A sense of a short form in the inventory."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.ENTRY["senses"][0]]})

    long_form: str
    forms: tuple[str, ...] = several("physiotherapy")
    concept_id: str | None = None


class InventoryEntry(Message):
    """A short form and its senses."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.ENTRY]})

    short_form: str
    senses: tuple[EntrySense, ...] = several(examples.ENTRY["senses"][0])


class InventoryAnswer(Message):
    """A part of the inventory: `n_found` short forms match, `entries` are those from `offset` on."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"n_short_forms": 2014, "n_senses": 5239, "n_found": 1, "entries": [examples.ENTRY]}]
        }
    )

    n_short_forms: int
    n_senses: int
    n_found: int
    entries: tuple[InventoryEntry, ...] = several(examples.ENTRY)


class HealthAnswer(Message):
    """That the service can answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"status": "ok", "version": "0.1.0", "n_short_forms": 2014, "waiting_notes": 0}]
        }
    )

    status: Literal["ok"]
    version: str
    n_short_forms: int
    waiting_notes: int


class ErrorMessage(Message):
    """What is wrong, in one line that never quotes a note."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"detail": "notes.0.text: found 300,000 characters, allowed: 200,000. Send it in parts."}
            ]
        }
    )

    detail: str
