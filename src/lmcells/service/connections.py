"""Limits on uvicorn's connections: their number, the size of headers, and the time for a request to arrive.

Routes can only limit what reaches them: silent sockets, half a handshake, half a header or a header of 300 MB never do.
"""

from asyncio import Protocol, TimerHandle, Transport, get_running_loop
from http import HTTPStatus
from ssl import SSLContext
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from lmcells.service.settings import ServiceSettings

MAX_HEADER = 32_768  # bytes of the request line and all headers, or between two pieces of a body
MAX_PIPELINE = 100  # requests of a connection that wait for the answer to an earlier one
SEND_SECONDS = 30.0  # for a client that does not read its answer
_GOODBYE_SECONDS = 1.0  # for a client to answer the end of TLS
_EACH = 4  # bytes around the name and the value of a header

_NO_HTTP = "the request is not HTTP/1.1."
_REFUSALS = {
    400: "Upgrade: not supported with a body. Use HTTP/1.1, without this header.",
    408: "the request did not arrive in time.",
    431: f"the headers are larger than {MAX_HEADER:,} bytes.",
    503: "all connections are in use. Try again later.",
}


def limited_connections(settings: ServiceSettings, tls: SSLContext | None = None) -> type[Protocol]:
    """Return the class of connections for a server with these settings, with or without a certificate."""
    waiting: dict[Any, None] = {}  # for a whole handshake or request; the longest wait comes first
    handshakes: set[Protocol] = set()

    def has_room(n_connections: int) -> bool:
        """Whether another connection may stay; if there are too many, one that waits is closed."""
        if n_connections + len(handshakes) > settings.max_connections:
            if not waiting:
                return False
            longest = next(iter(waiting))
            del waiting[longest]
            longest.transport.abort()
        return True

    class _LimitedConnection(HttpToolsProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._n_header = 0  # bytes since the request began, or since the last of its body
            self._in_header = True
            self._arriving: TimerHandle | None = None
            self._sending: TimerHandle | None = None

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if has_room(len(self.connections)):
                waiting[self] = None
                self._arriving = self.loop.call_later(settings.receive_seconds, self._is_late)
            else:
                self._refuse(503)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            self.resume_writing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if self in waiting and self._arriving is None:
                self._arriving = self.loop.call_later(settings.receive_seconds + 1, self._is_late)
            self._n_header += len(data)
            super().data_received(data)
            if self._n_header > MAX_HEADER and not self.transport.is_closing():
                if self._in_header:
                    self._refuse(431)
                else:
                    self.transport.abort()  # trailers, or the extension of a chunk

        def on_header(self, name: bytes, value: bytes) -> None:
            if self._in_header:  # trailers are ignored: they come after the headers were checked
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._in_header, self._n_header = False, 0
            n_bytes = len(self.url) + sum(len(name) + len(value) + _EACH for name, value in self.headers)
            if self.transport.is_closing():
                return
            if n_bytes > MAX_HEADER:
                self._refuse(431)
            elif self.parser.should_upgrade() and self._has_body():
                self._refuse(400)  # the parser would take the body for another request
            elif len(self.pipeline) >= MAX_PIPELINE:
                self.transport.abort()
            else:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._n_header = 0
            if not self.transport.is_closing():
                super().on_body(body)

        def on_message_complete(self) -> None:
            self._in_header = True
            self._stop_waiting()
            if not self.transport.is_closing():
                super().on_message_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.pipeline and not self.transport.is_closing():
                waiting.pop(self, None)
                waiting[self] = None  # at the end; uvicorn limits the wait for the next request

        def _has_body(self) -> bool:
            given = dict(self.headers)
            return b"transfer-encoding" in given or given.get(b"content-length", b"0").strip() != b"0"

        def pause_writing(self) -> None:
            super().pause_writing()
            self._sending = self.loop.call_later(SEND_SECONDS, self.transport.abort)

        def resume_writing(self) -> None:
            if self._sending is not None:
                self._sending.cancel()
                self._sending = None
            if self.flow is not None:
                super().resume_writing()

        def _stop_waiting(self) -> None:
            waiting.pop(self, None)
            if self._arriving is not None:
                self._arriving.cancel()
                self._arriving = None

        def _is_late(self) -> None:
            if self._in_header:
                self._refuse(408)
            else:
                self.transport.abort()  # a route has answered 408 already, or never reads the body

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words, as plain text
            self._refuse(400, _NO_HTTP)

        def _refuse(self, status: int, detail: str = "") -> None:
            content = f'{{"detail":"{detail or _REFUSALS[status]}"}}'
            self.transport.write(
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n{content}".encode()
            )
            self.transport.close()

    class _Handshake(Protocol):
        """A connection until both sides have agreed on TLS; then a `_LimitedConnection` takes its place.

        It needs the event loop of asyncio: uvloop continues to read while paused, and the handshake is lost.
        """

        transport: Transport

        def __init__(self, *, server_state: ServerState, **named: Any) -> None:
            self._named = named | {"server_state": server_state}
            self._server_state = server_state
            self._early: list[bytes] = []

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            transport.pause_reading()  # until `start_tls` reads
            self.transport = transport
            handshakes.add(self)
            if has_room(len(self._server_state.connections)):
                waiting[self] = None
                self._task = get_running_loop().create_task(self._agree())
            else:
                handshakes.discard(self)
                transport.abort()

        def data_received(self, data: bytes) -> None:
            self._early.append(data)

        async def _agree(self) -> None:
            assert tls is not None
            try:
                transport = await get_running_loop().start_tls(
                    self.transport,
                    self,
                    tls,
                    server_side=True,
                    ssl_handshake_timeout=settings.receive_seconds,
                    ssl_shutdown_timeout=_GOODBYE_SECONDS,
                )
            except OSError:
                self.transport.abort()
                return
            finally:
                waiting.pop(self, None)
                handshakes.discard(self)
            if transport is None or transport.is_closing():
                return
            connection = _LimitedConnection(**self._named)
            transport.set_protocol(connection)
            connection.connection_made(transport)
            if self._early:
                connection.data_received(b"".join(self._early))

    return _LimitedConnection if tls is None else _Handshake
