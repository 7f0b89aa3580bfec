"""Reading the body of a request: its size, its time, and how many values its JSON holds, before anything is parsed.

Parsed JSON takes up to a hundred times its bytes, and errors of a schema a thousand times. So values are counted while
the bytes arrive.
"""

import asyncio
import re
import zlib

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from lmcells.service.settings import ServiceSettings

MAX_VALUES = 30_000  # commas outside of strings: a thousand notes with eight sections each
SMALL = 65_536  # bytes: smaller bodies are always let in
_LARGE_BODIES = 8  # of the largest size, held at one time
_STEP = 65_536  # bytes unpacked or counted before others have their turn
_DRAIN_FACTOR = (
    8  # times the limit are read of a body that is too large: many clients send all before they listen
)
_DRAIN_SECONDS = 5.0
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class JsonCounter:
    """Counts the values of JSON that comes in pieces, without parsing it."""

    def __init__(self) -> None:
        self.n_values = 1
        self._in_string = False
        self._escape = b""  # a backslash at the end of a piece belongs to the next

    def feed(self, piece: bytes) -> None:
        """Count the commas of a piece that are not in strings."""
        piece = (b'"' if self._in_string else b"") + self._escape + piece
        n_backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._escape = b"\\" if n_backslashes % 2 else b""
        # A quote at the end closes the string that is open there, or else is all that is left of quotes.
        outside = _STRING.sub(b"", piece[: len(piece) - len(self._escape)] + b'"')
        self._in_string = not outside.endswith(b'"')
        self.n_values += outside.count(b",")


class BodyReader:
    """Reads bodies whole, or refuses them: 408, 413, 415, or 429 where large ones take too much memory together."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._n_held = 0  # bytes of large bodies

    async def __call__(self, scope: Scope, receive: Receive) -> bytearray:
        """Return the body of a request; ConnectionError if the client leaves first. `release` it later."""
        settings = self._settings
        body = bytearray()
        try:
            async with asyncio.timeout(settings.receive_seconds):
                await self._read(dict(scope["headers"]), receive, body)
        except TimeoutError:
            self.release(body)
            raise _closing(
                408, f"the body did not arrive within {settings.receive_seconds:g} seconds."
            ) from None
        except BaseException:
            self.release(body)
            raise
        return body

    def release(self, body: bytearray) -> None:
        """Forget a body that was read."""
        self._n_held -= len(body) if len(body) > SMALL else 0

    async def _read(self, headers: dict[bytes, bytes], receive: Receive, body: bytearray) -> None:
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._settings.max_body_bytes:
            await self._refuse_large(receive)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"gzip", b"x-gzip"):
            raise _closing(
                415, "Content-Encoding: allowed are gzip and identity.", {"Accept-Encoding": "gzip"}
            )
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
                    raise _closing(
                        413, f"the body holds more than {MAX_VALUES:,} values. Send fewer notes or sections."
                    )
                if piece:
                    await asyncio.sleep(0)
        if unpack is not None:
            self._extend(body, unpack.flush())  # a few bytes at most
        if unpack is not None and not unpack.eof:
            raise HTTPException(400, "the body is not whole: it ends within its gzip data.")

    def _extend(self, body: bytearray, part: bytes) -> None:
        n_before = len(body) if len(body) > SMALL else 0
        n_after = len(body) + len(part)
        n_more = (n_after if n_after > SMALL else 0) - n_before
        if n_more and self._n_held + n_more > _LARGE_BODIES * self._settings.max_body_bytes:
            raise _closing(429, "large requests fill the memory. Try again later.", {"Retry-After": "1"})
        self._n_held += n_more
        body += part

    async def _refuse_large(self, receive: Receive | None) -> None:
        most = self._settings.max_body
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                n_bytes, has_more = 0, receive is not None
                while receive and has_more and n_bytes < _DRAIN_FACTOR * self._settings.max_body_bytes:
                    piece, has_more = await _next_piece(receive)
                    n_bytes += len(piece)
        except TimeoutError:
            pass
        raise _closing(413, f"the body is larger than {most:g} MB, the most allowed. Send fewer notes.")


def replay(body: bytearray, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, then what the server says next: that the client left."""
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _unpacked(unpack: "zlib._Decompress", piece: bytes) -> tuple[bytes, bytes]:
    """Return a part of what a piece unpacks to, and what is left of the piece."""
    try:
        part = unpack.decompress(piece, _STEP)
    except zlib.error:
        raise _closing(400, "the body is not gzip data, as Content-Encoding says.") from None
    if unpack.unused_data:
        raise _closing(400, "the body goes on after the end of its gzip data.")
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
