"""The paths under /reviews: notes to review, decisions about them, and exports."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi import Path as InPath
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lmcells.errors import InputError
from lmcells.expansion import expand_text
from lmcells.expansion.expander import Expander
from lmcells.notes.note import Note
from lmcells.service import messages
from lmcells.service.messages import ExpansionMessage, Message, Metadata, Name, Offset, Several
from lmcells.service.requests import check_length, json_body
from lmcells.service.review_decisions import Action, Choice, ReviewedNote, Scope, agreement
from lmcells.service.review_files import EXPORTS, mentions_of, site_rules, version_of
from lmcells.service.reviews import ReviewStore
from lmcells.service.routes import errors
from lmcells.service.settings import ServiceSettings

MAX_NOTES = 500  # in one answer


LongForm = Annotated[str, Field(min_length=1, max_length=500, pattern=r"[^\W_]")]
Reviewer = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
NoteNumber = Annotated[int, InPath(ge=0, le=2**63 - 1)]  # SQLite has no larger ones
ReviewerQuery = Annotated[str, Query(max_length=100, examples=["Ana"], description="who is asking")]


class NewNote(Message):
    """A note to review; it is kept in the file of reviews."""

    name: Name
    text: str = Field(repr=False)
    metadata: Metadata = Field(default=(), max_length=20)


class ChoiceMessage(Message):
    """What a reviewer decides for the mention at `text[start:end]`.

    `is`: it stands for `long_form`, or is not a short form if that is null. `never`: it never stands for `long_form`.
    `done`: all answers of the note that the reviewer has not decided are right.
    """

    reviewer: Reviewer
    action: Action = "is"
    start: Offset = 0
    end: Offset = 0
    long_form: LongForm | None = None
    scope: Scope = "mention"


class UndoMessage(Message):
    """Whose last decision to undo."""

    reviewer: Reviewer


REQUESTS = (NewNote, ChoiceMessage, UndoMessage)


class DecisionMessage(Message):
    """What somebody decided, for which mentions, and when."""

    reviewer: str
    long_form: str | None
    scope: Scope
    at: str


class MentionMessage(ExpansionMessage):
    """A mention as the reviewer sees it: decided, or as the model answered.

    Others' decisions are shown only after the reviewer has decided.
    """

    answer: str | None = Field(description="what the model answered")
    answer_probability: float | None
    mine: DecisionMessage | None
    others: Several[DecisionMessage]
    never: Several[str]


class ReviewedNoteAnswer(Message):
    """A note with its mentions, in order."""

    id: int
    name: str
    category: str | None
    text: str = Field(repr=False)
    is_done: bool
    expansions: Several[MentionMessage]
    expanded: messages.ExpandedTextMessage


class ListedNote(Message):
    """A note of the queue: how many doubts the reviewer has left, and on how many mentions reviewers disagree."""

    id: int
    name: str
    category: str | None
    n_left: int
    n_disputed: int
    is_done: bool


class ReviewsAnswer(Message):
    """The queue, the most useful notes first, and a summary of the reviews."""

    file: str
    reviewer: str = Field(description="the name to begin with")
    model: str
    inventory: str
    n_notes: int
    n_done: int = Field(description="notes that the reviewer is done with")
    n_shared: int = Field(description="mentions that two or more reviewers decided")
    n_agreed: int = Field(description="those on which they agree")
    n_rules: int = Field(description="of the site inventory")
    n_contradictions: int = Field(description="rules left out, as reviewers contradict each other")
    notes: Several[ListedNote]


class UndoneAnswer(Message):
    """The note of the decision that was undone; null if there was none."""

    note: int | None


def review_router(expander: Expander, settings: ServiceSettings, *, route_class: type[APIRoute]) -> APIRouter:
    """Return the router of /reviews; without a file of reviews, it has no paths."""
    responses = errors(401, 422, 503)
    router = APIRouter(prefix="/reviews", responses=responses, route_class=route_class, tags=["reviews"])
    if settings.reviews is None:
        return router
    store = ReviewStore(Path(settings.reviews))
    version = version_of(expander)

    @router.get("", summary="The notes to review, the most useful first")
    def list_reviews(
        reviewer: ReviewerQuery = "",
        offset: Annotated[int, Query(ge=0, le=10**9, examples=[0])] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_NOTES, examples=[100])] = 100,
    ) -> ReviewsAnswer:
        """Also the reviewer's progress, and how far reviewers agree."""
        decided_in = store.list_notes(only_decided=True)
        rules, n_contradictions = site_rules(decided_in, expander.inventory)
        listed = store.list_notes(reviewer=reviewer, offset=offset, limit=limit)
        counts: dict[str, Any] = store.counts(reviewer) | agreement(decided_in) | version._asdict()
        return ReviewsAnswer(
            file=store.path.name,
            reviewer=settings.reviewer,
            **counts,
            n_rules=len(rules),
            n_contradictions=n_contradictions,
            notes=tuple(_listed(each, reviewer) for each in listed),
        )

    @router.post("/notes", summary="Add a note to the queue", openapi_extra=_body(NewNote))
    def add_reviewed_note(
        note: Annotated[NewNote, Depends(json_body(NewNote))], reviewer: ReviewerQuery = ""
    ) -> ReviewedNoteAnswer:
        """A note of the same name and text keeps its decisions."""
        check_length(note.text, "text", settings)
        given = Note(note.name, note.text, dict(note.metadata))
        mentions = mentions_of(given, expander(given.text, metadata=given.metadata), expander)
        return _shown(store.read(store.add(given, mentions, version=version)), reviewer)

    @router.get("/notes/{note_id}", summary="A note, and what was decided about its mentions")
    def read_reviewed_note(note_id: NoteNumber, reviewer: ReviewerQuery = "") -> ReviewedNoteAnswer:
        """As the reviewer sees it."""
        return _shown(store.read(note_id), reviewer)

    @router.post(
        "/notes/{note_id}/decisions",
        summary="Decide what a mention stands for",
        openapi_extra=_body(ChoiceMessage),
    )
    def add_decision(
        note_id: NoteNumber, choice: Annotated[ChoiceMessage, Depends(json_body(ChoiceMessage))]
    ) -> ReviewedNoteAnswer:
        """Returns the note as the reviewer sees it now."""
        if choice.action == "never" and choice.long_form is None:  # would forbid all senses, everywhere
            raise InputError("long_form: missing. Name the sense that is never meant.")
        reviewer = choice.reviewer.strip()
        made = Choice(**choice.model_dump(exclude={"reviewer"}))
        store.decide(note_id, made, reviewer=reviewer, version=version)
        return _shown(store.read(note_id), reviewer)

    @router.post("/undo", summary="Undo a reviewer's last decision", openapi_extra=_body(UndoMessage))
    def undo_decision(undo: Annotated[UndoMessage, Depends(json_body(UndoMessage))]) -> UndoneAnswer:
        """The decision before it is valid again."""
        return UndoneAnswer(note=store.undo(undo.reviewer.strip()))

    @router.delete(
        "/notes/{note_id}", status_code=204, summary="Delete a note's text and all decisions made in it"
    )
    def delete_reviewed_note(note_id: NoteNumber) -> None:
        """It cannot be undone."""
        store.delete(note_id)

    @router.get(
        "/export/{name}",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Reviews as a file",
    )
    def export_reviews(name: str) -> Response:
        """Corrected annotations (also as OMOP's NOTE_NLP), the site inventory, or a labelled set."""
        if name not in EXPORTS:
            raise HTTPException(404, f"there is no such export. Allowed: {', '.join(EXPORTS)}.")
        content = "".join(EXPORTS[name](store.list_notes(), expander.inventory))
        return Response(content, headers={"Content-Type": "text/plain; charset=utf-8"})

    return router


def _body(kind: type[Message]) -> dict[str, Any]:
    """Return the schema's entry for a body that `json_body` reads."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}


def _facts(reviewed: ReviewedNote, reviewer: str) -> dict[str, Any]:
    return {
        "id": reviewed.id,
        "name": reviewed.note.id,
        "category": reviewed.note.metadata.get("category"),
        "is_done": reviewer in reviewed.done_by,
    }


def _listed(reviewed: ReviewedNote, reviewer: str) -> ListedNote:
    facts = _facts(reviewed, reviewer)
    n_left = 0 if facts["is_done"] else reviewed.n_left(reviewer)
    n_disputed = sum(each.is_disputed for each in reviewed.mentions)
    return ListedNote(**facts, n_left=n_left, n_disputed=n_disputed)


def _shown(reviewed: ReviewedNote, reviewer: str) -> ReviewedNoteAnswer:
    answers, mentions = [], []
    for each in reviewed.mentions:
        expansion, mine = each.expansion, each.by_reviewer.get(reviewer)
        others = [decision for name, decision in sorted(each.by_reviewer.items()) if name != reviewer]
        answers.append(each.answer(mine))
        seen = {"candidates": expansion.to_dict()["candidates"], "never": sorted(each.never), "mine": mine}
        seen |= {"answer": expansion.long_form, "answer_probability": expansion.probability}
        mentions.append(answers[-1].to_dict() | seen | {"others": others if mine else []})
    text = reviewed.note.text
    note = {"text": text, "expansions": mentions, "expanded": expand_text(text, answers)}
    return ReviewedNoteAnswer.model_validate(_facts(reviewed, reviewer) | note, from_attributes=True)


# Examples for the schema

_NOTE = "PMH: Pt with CVA in 2019, now in PT twice weekly."
_AT = "2026-01-31T08:30:00+00:00"
_DECISION = DecisionMessage(reviewer="Ana", long_form="physical therapy", scope="section", at=_AT)
_LISTED = ListedNote(id=1, name="visit.txt", category=None, n_left=2, n_disputed=0, is_done=False)

messages.add_examples(
    NewNote(name="visit.txt", text=_NOTE),
    ChoiceMessage(reviewer="Ana", start=33, end=35, long_form="physical therapy", scope="section"),
    ChoiceMessage(reviewer="Ana", action="done"),
    UndoMessage(reviewer="Ana"),
    *(_DECISION, _LISTED),
    UndoneAnswer(note=1),
)
