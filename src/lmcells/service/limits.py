"""How many requests are let in, how large a body may be, and how long it may take to arrive.

Checked before the route reads the request: one that is refused is refused before its body is read.
"""

import asyncio
import math

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.service.metrics import ServiceMetrics
from lmcells.service.refusal import refusal
from lmcells.service.settings import ServiceSettings

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
