"""What surrounds every answer: errors as one line of JSON, a log and counts without patient data, security headers."""

import logging
import time
import traceback
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette._utils import get_route_path
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.errors import InputError
from lmcells.service.metrics import ServiceMetrics

CLIENT_LEFT = 499  # the status under which a request is logged whose client did not wait
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {  # load nothing from elsewhere, run no inline script, keep nothing
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
_NOT_IN_PLACE = frozenset(
    {"body", "query", "one", "many"}
)  # parts of pydantic's locations that clients never wrote


def refusal(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
) -> JSONResponse:
    """Return an error answer; `closes` ends the connection without reading the rest of the request."""
    return JSONResponse(
        {"detail": detail}, status, {**(headers or {}), **({"Connection": "close"} if closes else {})}
    )


async def answer_error(_: Request, error: Exception) -> JSONResponse:
    """Turn what the library, the schema or the router refuses into an answer."""
    if isinstance(error, RequestValidationError):
        return refusal(422, validation_detail(error.errors()))
    if isinstance(error, HTTPException):  # unknown paths, wrong methods, bodies that are not UTF-8
        return refusal(error.status_code, str(error.detail), headers=error.headers)
    return refusal(422, str(error))


ERROR_HANDLERS: dict[int | type[Exception], Any] = dict.fromkeys(
    (InputError, RequestValidationError, HTTPException), answer_error
)


def validation_detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first error by its place, without the value found there or any field name the client made up."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in _NOT_IN_PLACE]
    if first["type"] == "extra_forbidden":
        message = f"{'.'.join(place[:-1]) or 'body'}: has an unknown field. See /openapi.json."
    elif first["type"] == "json_invalid":
        message = f"body: not JSON (character {place[-1]})."
    elif not place:
        message = "body: not a JSON object. Send one, with Content-Type: application/json."
    else:
        message = f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}."
    more = len(errors) - 1
    return message + (f" And {more} more." if more else "")


def describe_error(error: BaseException) -> str:
    """Return an error's type and where it arose; its message is left out, as it may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
    return f"{type(error).__name__} at {places or 'unknown'}"


class Observation:
    """Adds the security headers to each answer; logs and counts its path, status and time.

    No body, query or error message is logged. It is the outermost layer, and answers 500 for errors that nothing else
    caught.
    """

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
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            _log.error("%s", describe_error(error))
            if status == 0:
                detail = "something went wrong in the service; its log says where."
                await refusal(500, detail, closes=True)(scope, receive, watched)
        seconds = time.perf_counter() - start
        status = status or CLIENT_LEFT
        path = get_route_path(scope)
        path = (
            path if path in self._paths else "other"
        )  # an unknown path may hold anything, and so may a method
        method = scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 10 else "-"
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.request_seconds.labels(path).observe(seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        _log.info('%s "%s %s" %d %.1f ms', client, method, path, status, 1000 * seconds)
