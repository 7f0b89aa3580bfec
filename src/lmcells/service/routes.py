"""The paths of the service."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.responses import Response

import lmcells
from lmcells.errors import InputError
from lmcells.expansion import SenseInventory
from lmcells.service.guards import CLIENT_LEFT
from lmcells.service.messages import (
    ErrorMessage,
    ExpandRequest,
    HealthAnswer,
    InventoryAnswer,
    ManyAnswers,
    ManyNotes,
    NoteAnswer,
    NoteMessage,
)
from lmcells.service.metrics import CONTENT_TYPE, ServiceMetrics
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import AnsweredNote, Job, NoteQueue, Worker

# Finding short forms in the inventory by what they look like or stand for.


class InventorySearch:
    """Short forms that begin with what is searched come first, then those with a long form that holds it."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._keys = [(name.casefold(), name) for name in inventory.short_forms]
        self._long_forms = [
            (
                name,
                " | ".join(form.casefold() for sense in senses for form in (sense.long_form, *sense.forms)),
            )
            for name, senses in inventory.by_short_form.items()
        ]
        self._all = tuple(name for _, name in sorted(self._keys))

    def __call__(self, text: str) -> Sequence[str]:
        """Return the short forms, best first; all of them for no text."""
        wanted = text.casefold().strip()
        if not wanted:
            return self._all
        by_name = sorted((key != wanted, key, name) for key, name in self._keys if key.startswith(wanted))
        found = dict.fromkeys(name for *_, name in by_name)
        found.update(dict.fromkeys(name for name, forms in self._long_forms if wanted in forms))
        return list(found)


# The paths of the service.


_ONE: TypeAdapter[AnsweredNote] = TypeAdapter(AnsweredNote)
_MANY: TypeAdapter[dict[str, list[AnsweredNote]]] = TypeAdapter(dict[str, list[AnsweredNote]])


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers of the schema for what may go wrong."""
    said = {
        400: "The body is no text.",
        401: "The token is missing or wrong.",
        408: "The body did not arrive in time.",
        413: "The body is too large.",
        422: "The request is not as described here, a note is too long, or a change contradicts the inventory.",
        429: "Too many requests are in progress; `Retry-After` says when to try again.",
    }
    return {status: {"model": ErrorMessage, "description": said[status]} for status in statuses}


def expanding(
    worker: Worker, settings: ServiceSettings, metrics: ServiceMetrics, *, route_class: type[APIRoute]
) -> APIRouter:
    """POST /expand."""
    router = APIRouter(route_class=route_class)

    @router.post(
        "/expand",
        response_class=Response,
        responses={
            200: {"model": NoteAnswer | ManyAnswers, "description": "One answer a note."},
            **errors(400, 401, 408, 413, 422, 429),
        },
        summary="Expand the short forms of one note or of several",
    )
    async def expand(request: Request, body: Annotated[ExpandRequest, Body()]) -> Response:
        """With `text`, one note is answered; with `notes`, several. Notes of all clients are ranked together."""
        check_size(body.notes if isinstance(body, ManyNotes) else (body,), settings)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bytes] = loop.create_future()
        job = Job(body, lambda done: loop.call_soon_threadsafe(_settle, answered, *_outcome(done)))
        if job.notes:
            worker.put(job)
        else:
            answered.set_result(_MANY.dump_json({"notes": []}))
        left = asyncio.ensure_future(
            request.receive()
        )  # the body was read: what comes next is that the client left
        try:
            await asyncio.wait((answered, left), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return Response(answered.result(), media_type="application/json")
            metrics.given_up.inc()
            return Response(status_code=CLIENT_LEFT)
        finally:
            job.give_up()
            left.cancel()

    return router


def check_size(notes: Sequence[NoteMessage], settings: ServiceSettings) -> None:
    """Refuse too many notes, and notes that are too long."""
    if len(notes) > settings.max_notes:
        raise InputError(f"notes: found {len(notes):,}, allowed: {settings.max_notes:,}. Send them in parts.")
    for index, note in enumerate(notes):
        if len(note.text) > settings.max_note_length:
            raise InputError(
                f"{f'notes.{index}.' if len(notes) > 1 else ''}text: found {len(note.text):,} characters, "
                f"allowed: {settings.max_note_length:,}. Send it in parts."
            )


def _outcome(job: Job) -> tuple[bytes | None, Exception | None]:
    """Write the answer in the worker's thread, so that the server's is free for others."""
    if job.error is not None:
        return None, job.error
    answers = [answer for answer in job.answers if answer is not None]
    if isinstance(job.request, ManyNotes):
        return _MANY.dump_json({"notes": answers}), None
    return _ONE.dump_json(answers[0]), None


def _settle(future: "asyncio.Future[bytes]", answer: bytes | None, error: Exception | None) -> None:
    if future.done():
        return
    if answer is not None:
        future.set_result(answer)
    else:
        future.set_exception(error or RuntimeError("no answer"))


def inventory_listing(inventory: SenseInventory, *, route_class: type[APIRoute]) -> APIRouter:
    """GET /inventory."""
    router = APIRouter(route_class=route_class)
    search_in = InventorySearch(inventory)

    @router.get(
        "/inventory", responses=errors(401, 422), summary="List or search short forms and their senses"
    )
    async def list_inventory(
        search: Annotated[
            str, Query(max_length=100, examples=["PT"], description="of a short form or a long form")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=10**9, examples=[0])] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000, examples=[50])] = 50,
    ) -> InventoryAnswer:
        """Short forms that begin with `search` come first, then those with a long form that holds it."""
        found = search_in(search)
        entries = [
            {
                "short_form": name,
                "senses": [
                    {"long_form": sense.long_form, "forms": sense.forms, "concept_id": sense.concept_id}
                    for sense in inventory.senses(name)
                ],
            }
            for name in found[offset : offset + limit]
        ]
        return InventoryAnswer.model_validate(
            {
                "n_short_forms": len(inventory),
                "n_senses": inventory.n_senses,
                "n_found": len(found),
                "entries": entries,
            }
        )

    return router


def health_check(queue: NoteQueue, inventory: SenseInventory) -> APIRouter:
    """GET /health."""
    router = APIRouter()

    @router.get("/health", summary="Whether the service can answer")
    async def health() -> HealthAnswer:
        """Needs no token."""
        return HealthAnswer(
            status="ok",
            version=lmcells.__version__,
            n_short_forms=len(inventory),
            waiting_notes=queue.n_waiting,
        )

    return router


def metrics_listing(metrics: ServiceMetrics, *, route_class: type[APIRoute]) -> APIRouter:
    """GET /metrics."""
    router = APIRouter(route_class=route_class)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {
                "content": {
                    "text/plain": {"schema": {"type": "string"}, "example": "lmcells_notes_total 64.0\n"}
                },
                "description": "Prometheus' text format.",
            },
            **errors(401),
        },
        summary="Counts and times for Prometheus",
    )
    async def show_metrics() -> Response:
        """Never a word of a note."""
        return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    return router
