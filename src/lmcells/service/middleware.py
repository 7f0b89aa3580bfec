"""Middleware: errors as one line of JSON, a log and metrics without patient data, security headers, compression."""

import asyncio
import ipaddress
import logging
import re
import time
import traceback
import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.errors import InputError
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.requests import validation_detail
from lmcells.service.reviews import ReviewsError

CLIENT_LEFT = 499  # the status in the log of a request whose client did not wait
REQUEST_ID = "X-Request-ID"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {  # no third-party resources, no inline scripts, no caching
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

_log = logging.getLogger("lmcells.service")
_VALID_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)  # may be repeated in a log
_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?!;\s*q=0(?:\.0*)?\s*(?:,|$))(?:;|,|$)", re.IGNORECASE)
_MIN_COMPRESSED = 1_000  # bytes: compressing less is not worth it
_COMPRESSED_AT_ONCE = 16_384  # bytes that are compressed faster than a thread is woken
_LEVEL = 4


def refusal(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)


async def answer_error(_: Request, error: Exception) -> JSONResponse:
    """Turn errors of the library, the schema and the router into answers."""
    if isinstance(error, RequestValidationError):
        return refusal(422, validation_detail(error.errors()))
    if isinstance(error, HTTPException):
        detail, headers = str(error.detail), error.headers or {}
        if detail == "Not Found":  # the router's own words
            detail = "no such path. See /docs."
        elif detail == "Method Not Allowed":
            detail = f"method not allowed on this path; allowed: {headers.get('Allow', 'see /docs')}."
        return refusal(error.status_code, detail, headers)
    return refusal(503 if isinstance(error, ReviewsError) else 422, str(error))


ERROR_HANDLERS: dict[int | type[Exception], Any] = dict.fromkeys(
    (InputError, RequestValidationError, HTTPException), answer_error
)


def describe_error(error: BaseException) -> str:
    """Return an error's type and where it was raised, but not its message, which may quote a note."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-6:])
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return f"{type(error).__name__} at {' < '.join(places) or 'unknown'}"


@dataclass(frozen=True)
class Observation:
    """Adds the security headers and the request's id to each answer; logs and counts its path, status and time.

    No body, query or error message is logged. It is the outermost layer: it refuses two hosts and those that are not
    allowed, answers HEAD as GET without the content, and 500 for errors that nothing else caught.
    """

    app: ASGIApp
    metrics: ServiceMetrics
    paths: Container[str]  # of the application; others may contain anything, and are logged as "other"
    probes: Container[str]  # may be called under any host name: an orchestrator uses the address
    successors: Mapping[str, str]  # the path that replaces an old one
    allowed_hosts: Container[str]  # allowed Host headers; none: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, path, method = Headers(scope=scope), get_route_path(scope), scope["method"]
        given = headers.get(REQUEST_ID, "")
        request_id = given if _VALID_ID.fullmatch(given) else uuid4().hex
        successor = self.successors.get(path)
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = MutableHeaders(scope=message)
                answered.update(HEADERS)
                answered[REQUEST_ID] = request_id
                if successor:
                    answered["Deprecation"] = "true"
                    answered["Link"] = f'<{scope.get("root_path", "")}{successor}>; rel="successor-version"'
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        start = time.perf_counter()
        try:
            host = re.sub(r":\d*$", "", headers.get("host", "")).lower()
            if len(headers.getlist("host")) > 1:
                detail = "Host: given more than once. Send it once."
                await refusal(400, detail, {"Connection": "close"})(scope, receive, watched)
            elif self.allowed_hosts and host not in self.allowed_hosts and path not in self.probes:
                detail = "this Host is not allowed here. Start the service with --allowed-host NAME."
                await refusal(421, detail)(scope, receive, watched)
            else:
                await self.app({**scope, "method": "GET"} if method == "HEAD" else scope, receive, watched)
        except Exception as error:
            _log.error("%s", describe_error(error), extra={"fields": {"request_id": request_id}})
            if status == 0:
                detail = "internal error; see the log of the service."
                await refusal(500, detail, {"Connection": "close"})(scope, receive, watched)
        seconds = time.perf_counter() - start
        self._note_down(scope, path, status or CLIENT_LEFT, seconds, request_id)

    def _note_down(self, scope: Scope, path: str, status: int, seconds: float, request_id: str) -> None:
        path = path if path in self.paths else "other"  # an unknown path may contain anything
        method = scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 10 else "-"
        self.metrics.requests.labels(path, str(status)).inc()
        self.metrics.request_seconds.labels(path).observe(seconds)
        client = _address(scope)
        fields = {"client": client, "method": method, "path": path, "status": status}
        fields |= {"ms": round(1000 * seconds, 1), "request_id": request_id}
        line = '%s "%s %s" %d %.1f ms %s'
        _log.info(line, client, method, path, status, 1000 * seconds, request_id, extra={"fields": fields})


def _address(scope: Scope) -> str:
    """Return the client's address, if it is valid: a proxy may pass on anything, also as the zone of an address."""
    try:
        return str(ipaddress.ip_address(scope["client"][0].partition("%")[0]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return "-"


@dataclass(frozen=True)
class Compression:
    """Compresses answers for clients that accept gzip: whole ones in a thread, streams piece by piece."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _GZIP.search(Headers(scope=scope).get("accept-encoding", "")):
            await self.app(scope, receive, send)
            return
        start: Message = {}
        packer: Any = None

        def pack(content: bytes, flush: int) -> bytes:
            return bytes(packer.compress(content) + packer.flush(flush))

        async def packed(message: Message) -> None:
            nonlocal start, packer
            if message["type"] == "http.response.start":
                start = message
                return
            content, has_more = message.get("body", b""), message.get("more_body", False)
            if start:
                headers = MutableHeaders(scope=start)
                headers.add_vary_header("Accept-Encoding")
                if has_more or len(content) >= _MIN_COMPRESSED:
                    packer = zlib.compressobj(_LEVEL, wbits=31)
                    headers["Content-Encoding"] = "gzip"
                    del headers["Content-Length"]
            if packer is not None:
                is_large = len(content) > _COMPRESSED_AT_ONCE
                given = content, zlib.Z_SYNC_FLUSH if has_more else zlib.Z_FINISH
                content = await asyncio.to_thread(pack, *given) if is_large else pack(*given)
            if start:
                if packer is not None and not has_more:
                    headers["Content-Length"] = str(len(content))
                await send(start)
                start = {}
            await send({"type": "http.response.body", "body": content, "more_body": has_more})

        await self.app(scope, receive, packed)
