"""The paths of the service: /expand, /inventory, /metrics and the probes (those under /explore are in `explore`)."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

import lmcells
from lmcells.errors import InputError
from lmcells.expansion import SenseInventory
from lmcells.expansion.expanded_text import Style
from lmcells.service import messages
from lmcells.service.jobs import Job
from lmcells.service.metrics import CONTENT_TYPE, ServiceMetrics
from lmcells.service.middleware import CLIENT_LEFT
from lmcells.service.requests import NDJSON, read_lines, read_request, require_type
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import Workers

PROBES = ("/health", "/livez", "/readyz")
# Bodies that routes read themselves, off the event loop:
REQUESTS = (messages.OneNote, messages.ManyNotes, messages.NoteMessage)

_ERRORS = {
    400: "The body is incomplete, or not gzip data although its header says so.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large, or holds too many values.",
    415: "The body is neither JSON nor one JSON object per line, or its compression is not gzip.",
    422: "The request does not match the schema, a note is too long, or a change contradicts the inventory.",
    429: "Too many requests are in progress; `Retry-After` says when to try again.",
    503: "The service or its file of reviews is not ready, or the answer took too long. Try again later.",
}
_AT_ONCE = 4_096  # bytes: a smaller request is checked faster than a thread is woken
_READY_SECONDS = 2.0
_READY_FOR = 1.0  # seconds for which the answer of a probe is reused


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the schema's entries for error statuses."""
    return {status: {"model": messages.ErrorMessage, "description": _ERRORS[status]} for status in statuses}


def add_expand(
    router: APIRouter, workers: Workers, settings: ServiceSettings, metrics: ServiceMetrics
) -> None:
    reader = ThreadPoolExecutor(1, thread_name_prefix="lmcells-reader")  # keeps the event loop free
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("OneNote", "ManyNotes")]
    lines: dict[str, Any] = {"type": "string", "examples": ['{"id": "a", "text": "PT 12"}\n']}

    @router.post(
        "/expand",
        response_class=Response,
        responses={
            200: {
                "model": messages.NoteAnswer | messages.ManyAnswers,
                "description": "One answer per note; for `Accept: application/x-ndjson`, one `NoteAnswer` per line.",
            },
            **errors(400, 401, 408, 413, 415, 422, 429, 503),
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"anyOf": refs}}, NDJSON: {"schema": lines}},
            }
        },
        summary="Expand the short forms of one or more notes",
    )
    async def expand(
        request: Request,
        expanded_text: Annotated[Style | None, Query(description="for notes that come one a line")] = None,
        explain: Annotated[bool, Query(description="for notes that come one a line")] = False,
    ) -> Response:
        """Send one note as `text`, several as `notes`, or one JSON object per line (Content-Type application/x-ndjson).

        With `Accept: application/x-ndjson`, each note is answered with a line as soon as it is expanded, in order; an
        invalid note is answered with its `id` and `detail`.
        """
        content_type = require_type(request, "application/json", NDJSON)
        body = await request.body()

        def read() -> tuple[messages.OneNote | messages.ManyNotes, dict[int, str]]:
            if content_type != NDJSON:
                return read_request(body, settings), {}
            return read_lines(body, settings, {"expanded_text": expanded_text, "explain": explain})

        is_small = len(body) <= _AT_ONCE
        loop = asyncio.get_running_loop()
        asked, mistakes = read() if is_small else await loop.run_in_executor(reader, read)
        lines = None
        answered: asyncio.Future[bytes]  # the answer or, of lines, the first
        if NDJSON in request.headers.get("accept", ""):
            lines = _answer_lines(asked, mistakes, workers, settings)
            answered = asyncio.ensure_future(anext(lines, b""))
        elif mistakes:
            raise InputError(next(iter(mistakes.values())))
        else:
            job = Job(asked)
            if not job.answered.done():
                workers.put(job)
            answered = asyncio.wrap_future(job.answered)
        # The body has been read, so the next message can only be that the client has left.
        left = asyncio.ensure_future(request.receive())
        try:
            first_done = asyncio.FIRST_COMPLETED
            await asyncio.wait((answered, left), timeout=settings.deadline, return_when=first_done)
            if answered.done():
                content = answered.result()
                if lines is None:
                    return Response(content, media_type="application/json")
                return StreamingResponse(_chain(content, lines), media_type=NDJSON)
            if left.done():
                metrics.given_up.inc()
                return Response(status_code=CLIENT_LEFT)
            late = f"not answered within {settings.deadline:g} seconds"
            detail = f"{late}. Send fewer notes, ask for fewer explanations, or try again later."
            raise HTTPException(503, detail, {"Retry-After": "5"})
        finally:
            answered.cancel()
            left.cancel()


async def _answer_lines(
    asked: messages.OneNote | messages.ManyNotes,
    mistakes: dict[int, str],
    workers: Workers,
    settings: ServiceSettings,
) -> AsyncGenerator[bytes]:
    """Yield one line per note as it is answered; the deadline applies to each, and the caller waits for the first."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def deliver(line: bytes | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    job = Job(asked, deliver=deliver, mistakes=mistakes)
    job.answered.add_done_callback(lambda _: deliver(None))
    n_lines = 0
    try:
        if not job.answered.done():
            workers.put(job)
        while (
            line := await asyncio.wait_for(lines.get(), settings.deadline if n_lines else None)
        ) is not None:
            n_lines += 1
            yield line + b"\n"
        error = job.answered.exception()
        if error is not None and n_lines == 0:
            raise error
        if error is not None:
            yield b'{"detail":"internal error. Send the rest again."}\n'
    except TimeoutError:
        yield b'{"detail":"no more lines within %g seconds. Send the rest again."}\n' % settings.deadline
    finally:
        job.answered.cancel()


async def _chain(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        async for line in rest:
            yield line


def add_inventory(router: APIRouter, inventory: SenseInventory) -> None:
    ordered = sorted(inventory.short_forms, key=lambda name: (name.casefold(), name))
    names, searched = {name: name.casefold() for name in ordered}, long_forms_of(inventory)

    @router.get(
        "/inventory", responses=errors(401, 422), summary="List or search short forms and their senses"
    )
    async def list_inventory(
        search: Annotated[
            str, Query(max_length=100, examples=["PT"], description="part of a short form or long form")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=10**9, examples=[0])] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000, examples=[50])] = 50,
    ) -> messages.InventoryAnswer:
        """Short forms that begin with `search` come first, then those with a long form that contains it."""
        found = find_names(search, names, searched)
        shown = found[offset : offset + limit]
        entries = [{"short_form": name, "senses": inventory.senses(name)} for name in shown]
        counts = {"n_short_forms": len(inventory), "n_senses": inventory.n_senses, "n_found": len(found)}
        return messages.InventoryAnswer.model_validate({**counts, "entries": entries}, from_attributes=True)


def find_names(text: str, names: Mapping[str, str], searched: Mapping[str, str]) -> list[str]:
    """Return names that begin with a text, exact matches first, then those whose entry in `searched` contains it.

    `names` are given with themselves in lower case, in the order in which they are returned.
    """
    wanted = text.casefold().strip()
    begin = [name for name, key in names.items() if key.startswith(wanted)]
    containing = [name for name, found in searched.items() if wanted in found] if wanted else []
    return list(dict.fromkeys([*sorted(begin, key=lambda name: names[name] != wanted), *containing]))


def long_forms_of(inventory: SenseInventory) -> dict[str, str]:
    """Return the text to search for each short form: its long forms, in lower case."""
    return {
        name: " | ".join(form.casefold() for sense in senses for form in (sense.long_form, *sense.forms))
        for name, senses in inventory.by_short_form.items()
    }


def add_metrics(router: APIRouter, metrics: ServiceMetrics) -> None:
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


def add_probes(router: APIRouter, workers: Workers, inventory: SenseInventory) -> None:
    """Add GET /health, /livez and /readyz; they need no token."""
    answered_at = float("-inf")

    @router.get("/health", summary="Whether the service is up, and what it serves")
    async def health() -> messages.HealthAnswer:
        """Needs no token."""
        counts = {"n_short_forms": len(inventory), "waiting_notes": workers.n_waiting}
        return messages.HealthAnswer(status="ok", version=lmcells.__version__, **counts)

    @router.get("/livez", summary="Whether the process is alive; if not, restart it")
    async def livez() -> messages.ProbeAnswer:
        """Needs no token."""
        return messages.ProbeAnswer(status="ok")

    @router.get(
        "/readyz", responses=errors(503), summary="Whether the service is ready for notes; if not, send none"
    )
    async def readyz() -> messages.ProbeAnswer:
        """Expands an empty note in the lane of short ones. Needs no token."""
        nonlocal answered_at
        if time.monotonic() - answered_at > _READY_FOR:
            job = Job(messages.OneNote(text=""))
            try:
                workers.put(job)
                await asyncio.wait_for(asyncio.wrap_future(job.answered), _READY_SECONDS)
            except (TimeoutError, RuntimeError):
                detail = "the workers do not respond. Try again later."
                raise HTTPException(503, detail, {"Retry-After": "5"}) from None
            answered_at = time.monotonic()
        return messages.ProbeAnswer(status="ok")
