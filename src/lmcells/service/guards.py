"""What a request must pass before its route reads it: the token, and limits on number, size and time.

Routes check these themselves, after the router has chosen one: a root path, a mount or a proxy changes the path of a
request, but never the route that answers it.
"""

import asyncio
import hmac
import math

from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import refusal
from lmcells.service.settings import ServiceSettings

_DRAIN_FACTOR = (
    8  # times the limit are read of a body that is too large: many clients send all before they listen
)
_DRAIN_SECONDS = 5.0

_needs_token = refusal(
    401,
    "a token is needed: Authorization: Bearer TOKEN.",
    headers={"WWW-Authenticate": 'Bearer realm="lmcells"'},
    closes=True,
)


def guarded_route(settings: ServiceSettings, metrics: ServiceMetrics) -> type[APIRoute]:
    """Return a class of routes that ask for the token, then apply the limits, before they read a request."""
    limits = Limits(settings, metrics)

    class _GuardedRoute(APIRoute):
        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            if settings.token is not None and not _shows_token(scope, settings.token):
                await _needs_token(scope, receive, send)
            else:
                await limits(super().handle, scope, receive, send)

    return _GuardedRoute


def _shows_token(scope: Scope, expected: str) -> bool:
    """Compare in a time that does not depend on how much of the token is right."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), expected.encode())


class Limits:
    """Admits so many POST requests at a time, each once its whole body has arrived."""

    def __init__(self, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._n_inside = 0

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to `app`, or refuse it with 408, 413 or 429."""
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        most = self._settings.max_concurrency
        if self._n_inside >= most:
            detail = f"{most} requests are in progress, the most allowed. Try again later."
            await refusal(429, detail, headers={"Retry-After": "1"})(scope, receive, send)
            return
        self._n_inside += 1
        self._metrics.in_progress.inc()
        try:
            await self._admit(app, scope, receive, send)
        finally:
            self._n_inside -= 1
            self._metrics.in_progress.dec()

    async def _admit(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._settings
        try:
            async with asyncio.timeout(settings.body_seconds):
                body = await _read_body(scope, receive, most=settings.max_body_bytes)
        except TimeoutError:
            detail = f"the body did not arrive within {settings.body_seconds:g} seconds."
            await refusal(408, detail, closes=True)(scope, receive, send)
        except ConnectionError:
            pass  # the client left: there is nobody to answer
        else:
            if body is None:
                detail = (
                    f"the body is larger than {settings.max_body:g} MB, the most allowed. Send fewer notes."
                )
                await refusal(413, detail, closes=True)(scope, receive, send)
            else:
                await app(scope, _replay(body, receive), send)


async def _read_body(scope: Scope, receive: Receive, *, most: int) -> bytes | None:
    """Return the whole body, or None when it is too large."""
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    expected = int(declared) if declared.isdigit() else math.inf
    pieces: list[bytes] = []
    n_bytes, has_more = 0, True
    while has_more and n_bytes <= most and expected <= most:
        piece, has_more = await _next_piece(receive)
        pieces.append(piece)
        n_bytes += len(piece)
    if n_bytes <= most and expected <= most:
        return b"".join(pieces)
    pieces.clear()
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            n_bytes = 0
            while has_more and n_bytes < _DRAIN_FACTOR * most:
                piece, has_more = await _next_piece(receive)
                n_bytes += len(piece)
    except TimeoutError:
        pass
    return None


async def _next_piece(receive: Receive) -> tuple[bytes, bool]:
    """Return a piece of the body, and whether there is more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionError
    return message.get("body", b""), message.get("more_body", False)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, then what the server says next: that the client left."""
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
