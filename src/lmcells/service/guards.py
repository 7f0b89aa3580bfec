"""Checks before a route reads a request: the token, the whole body within its limits, and the number of requests.

Routes check these themselves, after the router has chosen one: a root path, a mount or a proxy changes the path of a
request, but never the route that answers it. Parsed JSON takes up to a hundred times the memory of its bytes, and
schema errors a thousand times, so its values are counted while the bytes arrive, before anything is parsed.
"""

import asyncio
import hmac
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from lmcells.service.metrics import ServiceMetrics
from lmcells.service.settings import ServiceSettings

MAX_VALUES = 30_000  # commas outside of strings: a thousand notes with eight sections each
SMALL = 65_536  # bytes: smaller bodies are always accepted
_LARGE_BODIES = 8  # of the largest size, held at one time
_STEP = 65_536  # bytes unpacked or counted before others get a turn
_DRAIN_FACTOR = 8  # times the limit are read of a larger body: many clients send all of it before they listen
_DRAIN_SECONDS = 5.0
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def guarded_route(settings: ServiceSettings, metrics: ServiceMetrics) -> type[APIRoute]:
    """Return a class of routes that check the token and the limits before they read a request."""
    read_body = BodyReader(settings)
    expected = [token.encode() for token in settings.tokens]
    most = settings.max_concurrency
    n_inside = 0

    class _GuardedRoute(APIRoute):
        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal n_inside
            if expected and not _shows_one_of(scope, expected):
                headers = {"WWW-Authenticate": 'Bearer realm="lmcells"'}
                raise _closing(401, "a token is needed: Authorization: Bearer TOKEN.", headers)
            if scope["method"] not in ("POST", "PUT", "PATCH"):
                await super().handle(scope, receive, send)
                return
            async with read_body(scope, receive) as body:
                if body is None:
                    return  # the client has left
                if n_inside >= most:
                    detail = f"{most} requests are in progress, the most allowed. Try again later."
                    raise HTTPException(429, detail, {"Retry-After": "1"})
                n_inside += 1
                try:
                    with metrics.in_progress.track_inprogress():
                        await super().handle(scope, _replay(body, receive), send)
                finally:
                    n_inside -= 1

    return _GuardedRoute


def _shows_one_of(scope: Scope, expected: list[bytes]) -> bool:
    """Compare in constant time, so that timing reveals nothing about a token."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
    matches = [hmac.compare_digest(token.strip(), each) for each in expected]
    return scheme.lower() == b"bearer" and any(matches)


class BodyReader:
    """Reads whole bodies, or refuses them: 408, 413, 415, or 429 if large ones together take too much memory."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._n_held = 0  # bytes of large bodies

    @asynccontextmanager
    async def __call__(self, scope: Scope, receive: Receive) -> AsyncIterator[bytearray | None]:
        """Hold the body of a request; None if the client leaves first."""
        body = bytearray()
        try:
            yield body if await self._is_read(dict(scope["headers"]), receive, body) else None
        finally:
            self._n_held -= _large(len(body))

    async def _is_read(self, headers: dict[bytes, bytes], receive: Receive, body: bytearray) -> bool:
        seconds = self._settings.receive_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._read(headers, receive, body)
        except TimeoutError:
            raise _closing(408, f"the body did not arrive within {seconds:g} seconds.") from None
        except ConnectionError:
            return False
        return True

    async def _read(self, headers: dict[bytes, bytes], receive: Receive, body: bytearray) -> None:
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._settings.max_body_bytes:
            await self._refuse_large(receive)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"gzip", b"x-gzip"):
            detail = "Content-Encoding: not supported; allowed: gzip, identity."
            raise _closing(415, detail, {"Accept-Encoding": "gzip"})
        unpack = None if encoding == b"identity" else zlib.decompressobj(31)
        count, has_more = JsonCounter(), True
        while has_more:
            piece, has_more = await _next_piece(receive)
            while piece:
                if unpack is None:
                    part, piece = piece[:_STEP], piece[_STEP:]
                else:
                    part, piece = _unpacked(unpack, piece)
                if len(body) + len(part) > self._settings.max_body_bytes:
                    await self._refuse_large(receive if has_more else None)
                self._extend(body, part)
                count.feed(part)
                if count.n_values > MAX_VALUES:
                    detail = f"the body has more than {MAX_VALUES:,} values. Send fewer notes or sections."
                    raise _closing(413, detail)
                if piece:
                    await asyncio.sleep(0)
        if unpack is not None:
            self._extend(body, unpack.flush())  # a few bytes at most
        if unpack is not None and not unpack.eof:
            raise HTTPException(400, "the body is incomplete: it ends within its gzip data.")

    def _extend(self, body: bytearray, part: bytes) -> None:
        n_more = _large(len(body) + len(part)) - _large(len(body))
        if n_more and self._n_held + n_more > _LARGE_BODIES * self._settings.max_body_bytes:
            raise _closing(429, "large requests use up the memory. Try again later.", {"Retry-After": "1"})
        self._n_held += n_more
        body += part

    async def _refuse_large(self, receive: Receive | None) -> None:
        most = self._settings.max_body
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                n_bytes, has_more = 0, receive is not None
                while receive and has_more and n_bytes < _DRAIN_FACTOR * self._settings.max_body_bytes:
                    piece, has_more = await _next_piece(receive)
                    n_bytes += len(piece)
        raise _closing(413, f"the body is larger than {most:g} MB, the most allowed. Send fewer notes.")


def _large(n_bytes: int) -> int:
    return n_bytes if n_bytes > SMALL else 0


class JsonCounter:
    """Counts the values of JSON that arrives in pieces, without parsing it."""

    def __init__(self) -> None:
        self.n_values = 1
        self._in_string = False
        self._escape = b""  # a backslash at the end of a piece belongs to the next

    def feed(self, piece: bytes) -> None:
        """Count the commas of a piece that are not in strings."""
        piece = (b'"' if self._in_string else b"") + self._escape + piece
        n_backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._escape = b"\\" if n_backslashes % 2 else b""
        # A quote at the end closes the string that is open there, or is the only quote left.
        outside = _STRING.sub(b"", piece[: len(piece) - len(self._escape)] + b'"')
        self._in_string = not outside.endswith(b'"')
        self.n_values += outside.count(b",")


def _replay(body: bytearray, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, then the server's messages: that the client has left."""
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _unpacked(unpack: "zlib._Decompress", piece: bytes) -> tuple[bytes, bytes]:
    """Unpack part of a piece; return it, and the rest of the piece."""
    try:
        part = unpack.decompress(piece, _STEP)
    except zlib.error:
        raise _closing(400, "the body is not gzip data, although Content-Encoding says gzip.") from None
    if unpack.unused_data:
        raise _closing(400, "the body continues after the end of its gzip data.")
    return part, unpack.unconsumed_tail


def _closing(status: int, detail: str, headers: dict[str, str] | None = None) -> HTTPException:
    """Return an error that ends the connection, without reading the rest of the request."""
    return HTTPException(status, detail, {**(headers or {}), "Connection": "close"})


async def _next_piece(receive: Receive) -> tuple[bytes, bool]:
    """Return a piece of the body, and whether there is more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionError
    return message.get("body", b""), message.get("more_body", False)
