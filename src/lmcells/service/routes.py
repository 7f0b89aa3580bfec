"""The paths of the service: /expand, /inventory, /metrics and /health (those under /explore are in `explore`)."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

import lmcells
from lmcells.errors import InputError
from lmcells.expansion import SenseInventory
from lmcells.service.jobs import Job, NoteQueue
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
from lmcells.service.middleware import CLIENT_LEFT
from lmcells.service.search import InventorySearch
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import Worker

_ERRORS = {
    400: "The body is not valid UTF-8 text.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    422: "The request does not match the schema, a note is too long, or a change contradicts the inventory.",
    429: "Too many requests are in progress; `Retry-After` says when to try again.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the schema's entries for error statuses."""
    return {status: {"model": ErrorMessage, "description": _ERRORS[status]} for status in statuses}


def add_expand(router: APIRouter, worker: Worker, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
    """Add POST /expand."""

    @router.post(
        "/expand",
        response_class=Response,
        responses={
            200: {"model": NoteAnswer | ManyAnswers, "description": "One answer per note."},
            **errors(400, 401, 408, 413, 422, 429),
        },
        summary="Expand the short forms of one or more notes",
    )
    async def expand(request: Request, body: Annotated[ExpandRequest, Body()]) -> Response:
        """Send one note as `text`, or several as `notes`. Notes of all clients are ranked together."""
        check_size(body.notes if isinstance(body, ManyNotes) else (body,), settings)
        job = Job(body)
        answered = asyncio.wrap_future(job.answered)
        if job.notes:
            worker.put(job)
        # The body has been read, so the next message can only say that the client left.
        left = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait((answered, left), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return Response(answered.result(), media_type="application/json")
            metrics.given_up.inc()
            return Response(status_code=CLIENT_LEFT)
        finally:
            answered.cancel()
            left.cancel()


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


def add_inventory(router: APIRouter, inventory: SenseInventory) -> None:
    """Add GET /inventory."""
    find = InventorySearch(inventory)

    @router.get(
        "/inventory", responses=errors(401, 422), summary="List or search short forms and their senses"
    )
    async def list_inventory(
        search: Annotated[
            str, Query(max_length=100, examples=["PT"], description="part of a short form or long form")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=10**9, examples=[0])] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000, examples=[50])] = 50,
    ) -> InventoryAnswer:
        """Short forms that begin with `search` come first, then those with a long form that contains it."""
        found = find(search)
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
        counts = {"n_short_forms": len(inventory), "n_senses": inventory.n_senses, "n_found": len(found)}
        return InventoryAnswer.model_validate({**counts, "entries": entries})


def add_metrics(router: APIRouter, metrics: ServiceMetrics) -> None:
    """Add GET /metrics."""
    content = {"text/plain": {"schema": {"type": "string"}, "example": "lmcells_notes_total 64.0\n"}}

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": content, "description": "Prometheus' text format."}, **errors(401)},
        summary="Counts and times for Prometheus",
    )
    async def show_metrics() -> Response:
        """Never contains note text."""
        return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def add_health(router: APIRouter, queue: NoteQueue, inventory: SenseInventory) -> None:
    """Add GET /health."""

    @router.get("/health", summary="Whether the service is up")
    async def health() -> HealthAnswer:
        """Needs no token."""
        return HealthAnswer(
            status="ok",
            version=lmcells.__version__,
            n_short_forms=len(inventory),
            waiting_notes=queue.n_waiting,
        )
