"""Who may ask: anyone, or whoever shows the token.

The token is checked by the routes themselves, after the router has found which one a request is for: a root path, a
mount or a proxy changes the path of a request, but never the route that answers it.
"""

import asyncio
import hmac
import logging
import math
import time
import traceback
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette._utils import get_route_path
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.errors import InputError
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.settings import ServiceSettings

# Errors as answers: one line of JSON, {"detail": ...}, that never quotes a note.


_PLACES = frozenset({"body", "query", "one", "many"})  # where, and which of the two requests


def refusal(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
) -> JSONResponse:
    """Return an error; `closes` where the rest of the request is not worth reading."""
    return JSONResponse(
        {"detail": detail}, status, {**(headers or {}), **({"Connection": "close"} if closes else {})}
    )


async def refuse_input(_: Request, error: Exception) -> JSONResponse:
    """What the library refuses: sections out of order, senses that contradict the inventory."""
    assert isinstance(error, InputError)
    return refusal(422, str(error))


async def refuse_request(_: Request, error: Exception) -> JSONResponse:
    """What is not as the schema says."""
    assert isinstance(error, RequestValidationError)
    return refusal(422, validation_detail(error.errors()))


async def refuse_status(_: Request, error: Exception) -> JSONResponse:
    """Unknown paths, wrong methods, bodies that are no text."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, str(error.detail), headers=error.headers)


def validation_detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Say what is wrong first, by its place; never with what was found there, nor with names that were made up."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in _PLACES]
    if first["type"] == "extra_forbidden":
        message = f"{'.'.join(place[:-1]) or 'body'}: has a field that is not known. See /openapi.json."
    elif first["type"] == "json_invalid":
        message = f"body: not JSON (character {place[-1]})."
    elif not place:
        message = "body: not a JSON object. Send one, with Content-Type: application/json."
    else:
        message = f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}."
    more = len(errors) - 1
    return message + (f" And {more} more." if more else "")


# What is logged and counted of each request: where, how it ended, how long it took. No body, no query, no message.
#
# The outermost layer, and the last to see an error: a traceback's last line may quote what was read, and goes nowhere.


_log = logging.getLogger("lmcells.service")

CLIENT_LEFT = 499


class Observation:
    """Logs and counts; answers 500 where all else failed."""

    def __init__(self, app: ASGIApp, *, metrics: ServiceMetrics, paths: Container[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            _log.error("%s", describe(error))
            if status == 0:
                detail = "something went wrong in the service; its log says where."
                await refusal(500, detail, closes=True)(scope, receive, watched)
        seconds = time.perf_counter() - start
        # A path that we do not serve may hold anything.
        path = get_route_path(scope)
        path = path if path in self._paths else "other"
        status = status or CLIENT_LEFT
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.request_seconds.labels(path).observe(seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        _log.info('%s "%s %s" %d %.1f ms', client, _method(scope), path, status, 1000 * seconds)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 10 else "-"


def describe(error: BaseException) -> str:
    """Say what kind of error it is and where it arose, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
    return f"{type(error).__name__} at {places or 'unknown'}"


# What browsers are told with every answer: load nothing from elsewhere, run no inline script, keep nothing.


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class SecurityHeaders:
    """Adds the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


# How many requests are let in, how large a body may be, and how long it may take to arrive.
#
# Checked before the route reads the request: one that is refused is refused before its body is read.


_DRAINED = 8  # times the limit, of a body that is too large: many clients read no answer before all is sent
_DRAIN_SECONDS = 5.0


class Limits:
    """Lets requests with a body in, one by one, each with its body whole."""

    def __init__(self, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._n_inside = 0

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it with 413, 408 or 429."""
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        if self._n_inside >= self._settings.max_concurrency:
            answer = refusal(
                429,
                f"{self._settings.max_concurrency} requests are in progress, the most there may be. Try again later.",
                headers={"Retry-After": "1"},
            )
            await answer(scope, receive, send)
            return
        self._n_inside += 1
        self._metrics.in_progress.inc()
        try:
            await self._enter(app, scope, receive, send)
        finally:
            self._n_inside -= 1
            self._metrics.in_progress.dec()

    async def _enter(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            seconds = f"{self._settings.body_seconds:g}"
            await refusal(408, f"the body did not arrive within {seconds} seconds.", closes=True)(
                scope, receive, send
            )
            return
        except ConnectionError:
            return  # the client left; there is nobody to answer
        if body is None:
            allowed = f"{self._settings.max_body:g} MB"
            answer = refusal(
                413, f"the body is larger than {allowed}, the most allowed. Send fewer notes.", closes=True
            )
            await answer(scope, receive, send)
            return
        await app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body, None when it is too large."""
        most = self._settings.max_body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        expected = int(declared) if declared.isdigit() else math.inf
        pieces: list[bytes] = []
        n_bytes, has_more = 0, True
        while has_more and n_bytes <= most and expected <= most:
            message = await _next(receive)
            pieces.append(message.get("body", b""))
            n_bytes += len(pieces[-1])
            has_more = message.get("more_body", False)
        if n_bytes <= most and expected <= most:
            return b"".join(pieces)
        pieces.clear()
        await _drain(receive, has_more=has_more, most=_DRAINED * most)
        return None


async def _drain(receive: Receive, *, has_more: bool, most: int) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            n_bytes = 0
            while has_more and n_bytes < most:
                message = await _next(receive)
                n_bytes += len(message.get("body", b""))
                has_more = message.get("more_body", False)
    except TimeoutError:
        pass


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionError
    return message


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body once, then whatever the server says next: that the client left."""
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


# Who may ask: anyone, or whoever shows the token.
#
# The token is checked by the routes themselves, after the router has found which one a request is for: a root path, a
# mount or a proxy changes the path of a request, but never the route that answers it.


def guarded_route(*, token: str | None, limits: Limits) -> type[APIRoute]:
    """Return the class of routes that ask for `Authorization: Bearer TOKEN` before they read anything of a request."""

    class GuardedRoute(APIRoute):
        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            if token is not None and not _shows(token, scope):
                await _needs_token(scope, receive, send)
            else:
                await limits(super().handle, scope, receive, send)

    return GuardedRoute


_needs_token = refusal(
    401,
    "a token is needed: Authorization: Bearer TOKEN.",
    headers={"WWW-Authenticate": 'Bearer realm="lmcells"'},
    closes=True,
)


def _shows(expected: str, scope: Scope) -> bool:
    """Compare in a time that does not depend on how much of the token is right."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), expected.encode())
