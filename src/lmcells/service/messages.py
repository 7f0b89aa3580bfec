"""Requests and answers as pydantic models: they check requests, define the schema, and can be used by Python clients.

Offsets count Unicode code points, as Python does.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from lmcells.errors import InventoryError
from lmcells.expansion import Candidate, Expansion
from lmcells.expansion.expanded_text import Style
from lmcells.expansion.expansion import Source
from lmcells.expansion.inventory import Action
from lmcells.expansion.inventory_files import rule_fields

MAX_EDITS = 1_000
MAX_SECTIONS = 5_000
MAX_HEADER = 500  # characters; the latest headers are cached
MAX_EXPLAINED = 200

Item = TypeVar("Item")


def _whole(number: object) -> object:
    """Read 12.0 as 12, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Name = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
ShortForm = Annotated[str, Field(min_length=1, max_length=50, pattern=r"\S")]
Offset = Annotated[int, Field(ge=0, le=2**53 - 1), BeforeValidator(_whole)]
Probability = Annotated[float, Field(ge=0, le=1)]
# Accepts a list, as JSON arrays are; stops at the first mistake.
Several = Annotated[tuple[Item, ...], Field(strict=False, fail_fast=True)]


def _pairs(given: object) -> object:
    """Read an object as sorted pairs, which are hashable."""
    if isinstance(given, tuple):
        return given
    if not isinstance(given, dict):
        raise ValueError("it must be an object, such as {'category': 'Echo'}")
    if not all(isinstance(value, str) for value in given.values()):
        raise ValueError("its values must be strings, such as 'Echo' or '7'")
    return tuple(sorted(given.items()))


_METADATA: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA |= {"examples": [{"category": "Cardiology"}]}
Metadata = Annotated[  # an object in JSON; pairs here, which are hashable
    tuple[tuple[str, str], ...],
    BeforeValidator(_pairs),
    PlainSerializer(dict),
    WithJsonSchema(_METADATA),
]


_EXAMPLES: dict[type[BaseModel], list[dict[str, Any]]] = {}


def add_examples(*messages: "Message") -> None:
    """Show these messages in the schema, as examples of their own models."""
    for each in messages:
        _EXAMPLES.setdefault(type(each), []).append(each.model_dump(mode="json", exclude_unset=True))


def _show_examples(schema: dict[str, Any], model: type["Message"]) -> None:
    """Put a model's examples into its schema; an array shows the first item of the first example."""
    if model in _EXAMPLES:
        schema["examples"] = _EXAMPLES[model]
        for name, field in schema["properties"].items():
            if any(each.get("type") == "array" for each in field.get("anyOf", [field])):
                array = _EXAMPLES[model][0].get(name)
                field.setdefault("examples", [array and array[:1]])


def _show_conditions(schema: dict[str, Any], model: type["Message"]) -> None:
    _show_examples(schema, model)
    schema["additionalProperties"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


class Message(BaseModel):
    """Base of all messages: frozen, no unknown fields, and no conversion from other types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra=_show_examples)


# Requests


class SectionMessage(Message):
    """A section given by the caller, at `text[start:end]`. Sections must be in order and must not overlap."""

    start: Offset
    end: Offset
    header: str | None = Field(default=None, max_length=MAX_HEADER)


class SenseName(Message):
    """One sense of the inventory, or all senses of a short form."""

    short_form: Name
    long_form: Name | None = None


class SenseMessage(Message):
    """A long form that a short form may stand for, and the ways in which it is written out."""

    short_form: ShortForm
    long_form: Name
    forms: Several[Name] = Field(default=(), max_length=100)
    concept_id: Name | None = None


class RuleMessage(Message):
    """A rule as in a site's inventory: add, forbid or pin a sense, in some sections or under other metadata only.

    As in its files, other keys are conditions, too: `"section": "PLAN"` is `"where": {"section": "PLAN"}`.
    """

    model_config = ConfigDict(json_schema_extra=_show_conditions)

    short_form: ShortForm
    long_form: Annotated[str, Field(max_length=500)] | None = None
    action: Action = "add"
    forms: Several[Name] = Field(default=(), max_length=100)
    concept_id: Name | Offset | None = None
    error_prone: bool | str = False
    where: Metadata = ()

    @model_validator(mode="before")
    @classmethod
    def _read_as_in_files(cls, given: object) -> object:
        try:
            return rule_fields(given) if isinstance(given, dict) else given
        except InventoryError as error:
            raise ValueError(str(error)) from error


class InventoryEdits(Message):
    """Senses and rules over the service's inventory for one request; with `only`, instead of it.

    A removed sense must exist. `rules` are applied last.
    """

    add: Several[SenseMessage] = Field(default=(), max_length=MAX_EDITS)
    remove: Several[SenseName] = Field(default=(), max_length=MAX_EDITS)
    rules: Several[RuleMessage] = Field(default=(), max_length=MAX_EDITS)
    only: bool = False


class NoteMessage(Message):
    """One note. Without `sections`, the service finds them."""

    text: str = Field(repr=False)
    id: str | None = None
    sections: Several[SectionMessage] | None = Field(default=None, max_length=MAX_SECTIONS)
    metadata: Metadata = Field(
        default=(), description="the note's type and the like, for rules that ask for it"
    )


class Options(Message):
    """Options for the notes of a request."""

    inventory: InventoryEdits | None = None
    expanded_text: Style | None = Field(
        default=None, description="also return the text with its short forms written out"
    )
    explain: bool | Annotated[Several[Offset], Field(max_length=MAX_EXPLAINED)] = Field(
        default=False,
        description="also return what the model relied on: for all short forms, or those that begin at these offsets",
    )


class OneNote(Options, NoteMessage):
    """A request to expand one note."""


class ManyNotes(Options):
    """A request to expand several notes."""

    notes: Several[NoteMessage]


# Answers


class CandidateMessage(Message):
    """A long form that the short form may stand for here, and its probability."""

    long_form: str
    probability: Probability
    concept_id: str | None


class ExpansionMessage(Message):
    """A short form at `text[start:end]` and what it stands for: the fields of `lmcells.Expansion`."""

    start: Offset
    end: Offset
    short_form: str
    section: str | None
    long_form: str | None
    probability: Probability | None
    source: Source
    candidates: Several[CandidateMessage]
    abstained: str | None
    error_prone: bool = False

    def to_expansion(self) -> Expansion:
        """Return the expansion that the message describes."""
        return Expansion.from_dict(self.model_dump())


class WordMessage(Message):
    """A context word at `text[start:end]`, its share of the attention, and its effect.

    The effect is by how much the log-odds of the likeliest sense would fall without the word. It is null where there
    is nothing to mask or to compare, and beyond the first 200 ambiguous short forms of a note.
    """

    start: Offset
    end: Offset
    word: str
    weight: float
    effect: float | None


class ExplanationMessage(Message):
    """The weight of the section against the words (0 to 1), the section's effect, and the context words."""

    section_weight: float
    section_effect: float | None
    words: Several[WordMessage]


class OffsetMapMessage(Message):
    """The replaced parts of the text: `[starts[i], ends[i])` became `[new_starts[i], new_ends[i])`."""

    starts: Several[int]
    ends: Several[int]
    new_starts: Several[int]
    new_ends: Several[int]


class ExpandedTextMessage(Message):
    """The text with its short forms written out, and the map from the original's offsets to its own."""

    text: str = Field(repr=False)
    offset_map: OffsetMapMessage


class NoteAnswer(Message):
    """The expansions of a note, in order.

    `explanations` has one per expansion: null where it needed no ranking, and where none was asked for.
    """

    id: str | None
    expansions: Several[ExpansionMessage]
    explanations: Several[ExplanationMessage | None] | None
    expanded: ExpandedTextMessage | None


class ManyAnswers(Message):
    """One answer per note, in the order of the request."""

    notes: Several[NoteAnswer]


class EntrySense(Message):
    """A sense of a short form in the inventory."""

    long_form: str
    forms: Several[str]
    concept_id: str | None = None


class InventoryEntry(Message):
    """A short form and its senses."""

    short_form: str
    senses: Several[EntrySense]


class InventoryAnswer(Message):
    """Part of the inventory: `n_found` short forms match the search; `entries` has those from `offset` on."""

    n_short_forms: int
    n_senses: int
    n_found: int
    entries: Several[InventoryEntry]


class ProbeAnswer(Message):
    """The process, or its workers, answered."""

    status: Literal["ok"]


class HealthAnswer(Message):
    """The service is up, and how many notes are waiting."""

    status: Literal["ok"]
    version: str
    n_short_forms: int
    waiting_notes: int


class ErrorMessage(Message):
    """An error, in one line that never quotes a note."""

    detail: str


# Examples for the schema

_NOTE = "PMH: Pt with CVA in 2019, now in PT twice weekly."
_ADDED = SenseMessage(short_form="PT", long_form="pars tensa", forms=("pars tensa",), concept_id=None)
_REMOVED = SenseName(short_form="PT", long_form="prothrombin time")
_PINNED = RuleMessage(
    forms=("mitral stenosis", "stenosis of the mitral valve"),
    short_form="MS",
    long_form="mitral stenosis",
    action="pin",
    where=(("section", "CARDIOLOGY"),),
)
_EDITS = InventoryEdits(add=(_ADDED,), remove=(_REMOVED,), rules=(_PINNED,))
_FIRST_NOTE = NoteMessage(id="note-1", text=_NOTE)
_EXPANSION = ExpansionMessage.model_validate(
    Expansion(
        *(33, 35, "PT", "PAST MEDICAL HISTORY", "physical therapy", 0.93, "model"),
        candidates=(Candidate("physical therapy", 0.93, None), Candidate("prothrombin time", 0.07, None)),
    ).to_dict()
)
_WORD = WordMessage(start=36, end=41, word="twice", weight=0.41, effect=1.3)
_EXPLANATION = ExplanationMessage(section_weight=0.38, section_effect=0.4, words=(_WORD,))
_OFFSETS = OffsetMapMessage(starts=(33,), ends=(35,), new_starts=(33,), new_ends=(49,))
_EXPANDED = ExpandedTextMessage(text=_NOTE.replace(" PT ", " physical therapy "), offset_map=_OFFSETS)
_ANSWER = NoteAnswer(id=None, expansions=(_EXPANSION,), explanations=(_EXPLANATION,), expanded=_EXPANDED)
_ENTRY_SENSE = EntrySense(long_form="physical therapy", forms=("physiotherapy",))
_ENTRY = InventoryEntry(short_form="PT", senses=(_ENTRY_SENSE,))

add_examples(
    SectionMessage(start=0, end=48, header="PMH"),
    *(_ADDED, _REMOVED, _PINNED, _EDITS, _FIRST_NOTE),
    OneNote(text=_NOTE),
    OneNote(text=_NOTE, expanded_text="replace", explain=True, inventory=_EDITS),
    ManyNotes(notes=(_FIRST_NOTE, NoteMessage(id="note-2", text="PT 12 s."))),
    *(*_EXPANSION.candidates, _EXPANSION, _WORD, _EXPLANATION, _OFFSETS, _EXPANDED, _ANSWER),
    ManyAnswers(notes=(_ANSWER.model_copy(update={"id": "note-1"}),)),
    *(_ENTRY_SENSE, _ENTRY),
    InventoryAnswer(n_short_forms=2014, n_senses=5239, n_found=1, entries=(_ENTRY,)),
    ProbeAnswer(status="ok"),
    HealthAnswer(status="ok", version="0.1.0", n_short_forms=2014, waiting_notes=0),
    ErrorMessage(detail="notes.0.text: found 300,000 characters, allowed: 200,000. Send it in parts."),
)
