"""What the service answers, as pydantic models: the schema's, and for clients that are written in Python."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from lmcells.expansion import Expansion

# What all messages share: frozen, nothing but their own fields, nothing converted.
#
# Offsets count Unicode code points, as Python does.


def _encodable(text: str) -> str:
    """Refuse half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("not Unicode text: it holds half of a surrogate pair") from None
    return text


def _whole(number: object) -> object:
    """Take 12.0 for 12, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Text = Annotated[str, AfterValidator(_encodable)]
Name = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S"), AfterValidator(_encodable)]
Offset = Annotated[int, Field(ge=0, le=2**53 - 1), BeforeValidator(_whole)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Message(BaseModel):
    """Frozen, with no field but its own, and nothing converted that was sent as another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def several(example: Any, **more: Any) -> Any:
    """A JSON array, held as a tuple."""
    return Field(strict=False, examples=[[example]], **more)


# The examples of the schema: one note, and what might be answered.


NOTE = "PMH: Pt with CVA in 2019, now in PT twice weekly."
SENSE: dict[str, Any] = {
    "short_form": "PT",
    "long_form": "pars tensa",
    "forms": ["pars tensa"],
    "concept_id": None,
}
EDITS: dict[str, Any] = {"add": [SENSE], "remove": [{"short_form": "PT", "long_form": "prothrombin time"}]}
CANDIDATES: list[Any] = [
    {"long_form": "physical therapy", "probability": 0.93, "concept_id": None},
    {"long_form": "prothrombin time", "probability": 0.07, "concept_id": None},
]
EXPANSION: dict[str, Any] = {
    "start": 33,
    "end": 35,
    "short_form": "PT",
    "section": "PAST MEDICAL HISTORY",
    "long_form": "physical therapy",
    "probability": 0.93,
    "source": "model",
    "candidates": CANDIDATES,
    "abstained": None,
}
WORD: dict[str, Any] = {"start": 36, "end": 41, "word": "twice", "weight": 0.41, "effect": 1.3}
EXPLANATION: dict[str, Any] = {"section_weight": 0.38, "section_effect": 0.4, "words": [WORD]}
OFFSETS: dict[str, Any] = {"starts": [33], "ends": [35], "new_starts": [33], "new_ends": [49]}
EXPANDED: dict[str, Any] = {
    "text": "PMH: Pt with CVA in 2019, now in physical therapy twice weekly.",
    "offset_map": OFFSETS,
}
ANSWER: dict[str, Any] = {
    "id": None,
    "expansions": [EXPANSION],
    "explanations": [EXPLANATION],
    "expanded": EXPANDED,
}
ENTRY: dict[str, Any] = {
    "short_form": "PT",
    "senses": [{"long_form": "physical therapy", "forms": ["physiotherapy"]}],
}


# What clients send, checked by pydantic and described with examples in the schema.


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

    model_config = ConfigDict(json_schema_extra={"examples": EDITS["remove"]})

    short_form: Name
    long_form: Name | None = None


class SenseMessage(Message):
    """A long form that a short form may stand for, and the ways in which it is written out."""

    model_config = ConfigDict(json_schema_extra={"examples": [SENSE]})

    short_form: Name
    long_form: Name
    forms: tuple[Name, ...] = several("pars tensa", default=(), max_length=100)
    concept_id: Name | None = None


class InventoryEdits(Message):
    """Changes to the inventory for one request: what is removed must be there, what is added must not."""

    model_config = ConfigDict(json_schema_extra={"examples": [EDITS]})

    add: tuple[SenseMessage, ...] = several(SENSE, default=(), max_length=MOST_EDITS)
    remove: tuple[SenseName, ...] = several(EDITS["remove"][0], default=(), max_length=MOST_EDITS)


class NoteMessage(Message):
    """One note, with sections of the caller's own, or none to have them found."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "note-1", "text": NOTE}]})

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
                {"text": NOTE},
                {
                    "text": NOTE,
                    "expanded_text": "replace",
                    "explain": True,
                    "inventory": EDITS,
                },
            ]
        }
    )


class ManyNotes(Options):
    """A request to expand several notes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"notes": [{"id": "note-1", "text": NOTE}, {"id": "note-2", "text": "PT 12 s."}]}]
        }
    )

    notes: tuple[NoteMessage, ...] = several({"id": "note-1", "text": NOTE})


def _which(given: Any) -> str:
    return "many" if isinstance(given, dict) and "notes" in given else "one"


ExpandRequest = Annotated[
    Annotated[OneNote, Tag("one")] | Annotated[ManyNotes, Tag("many")], Discriminator(_which)
]


# What the service answers, as pydantic models: the schema's, and for clients that are written in Python.


class CandidateMessage(Message):
    """A long form that a short form may stand for, and how likely that is where it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": CANDIDATES})

    long_form: str
    probability: Probability
    concept_id: str | None


class ExpansionMessage(Message):
    """A short form written at `text[start:end]` and what it stands for: the fields of `lmcells.Expansion`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXPANSION]})

    start: Offset
    end: Offset
    short_form: str
    section: str | None
    long_form: str | None
    probability: Probability | None
    source: Literal["model", "definition"]
    candidates: tuple[CandidateMessage, ...] = several(CANDIDATES[0])
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

    model_config = ConfigDict(json_schema_extra={"examples": [WORD]})

    start: Offset
    end: Offset
    word: str
    weight: float
    effect: float | None


class ExplanationMessage(Message):
    """How much the section weighed against the words, 0 to 1, its effect, and the words that were read."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXPLANATION]})

    section_weight: float
    section_effect: float | None
    words: tuple[WordMessage, ...] = several(WORD)


class OffsetMapMessage(Message):
    """Pieces of the text that were replaced: `[starts[i], ends[i])` became `[new_starts[i], new_ends[i])`."""

    model_config = ConfigDict(json_schema_extra={"examples": [OFFSETS]})

    starts: tuple[int, ...] = several(33)
    ends: tuple[int, ...] = several(35)
    new_starts: tuple[int, ...] = several(33)
    new_ends: tuple[int, ...] = several(49)


class ExpandedTextMessage(Message):
    """The text with its short forms written out, and the map between its offsets and those of the original."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXPANDED]})

    text: str = Field(repr=False)
    offset_map: OffsetMapMessage


class NoteAnswer(Message):
    """The expansions of a note in order; `explanations` has one for each, null for one that the note defines."""

    model_config = ConfigDict(json_schema_extra={"examples": [ANSWER]})

    id: str | None
    expansions: tuple[ExpansionMessage, ...] = several(EXPANSION)
    explanations: tuple[ExplanationMessage | None, ...] | None = Field(strict=False, examples=[[EXPLANATION]])
    expanded: ExpandedTextMessage | None


class ManyAnswers(Message):
    """One answer a note, in the order of the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"notes": [ANSWER | {"id": "note-1"}]}]})

    notes: tuple[NoteAnswer, ...] = several(ANSWER)


class EntrySense(Message):
    """A sense of a short form in the inventory."""

    model_config = ConfigDict(json_schema_extra={"examples": [ENTRY["senses"][0]]})

    long_form: str
    forms: tuple[str, ...] = several("physiotherapy")
    concept_id: str | None = None


class InventoryEntry(Message):
    """A short form and its senses."""

    model_config = ConfigDict(json_schema_extra={"examples": [ENTRY]})

    short_form: str
    senses: tuple[EntrySense, ...] = several(ENTRY["senses"][0])


class InventoryAnswer(Message):
    """A part of the inventory: `n_found` short forms match, `entries` are those from `offset` on."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"n_short_forms": 2014, "n_senses": 5239, "n_found": 1, "entries": [ENTRY]}]
        }
    )

    n_short_forms: int
    n_senses: int
    n_found: int
    entries: tuple[InventoryEntry, ...] = several(ENTRY)


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
