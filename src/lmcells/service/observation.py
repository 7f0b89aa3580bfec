"""What is logged and counted of each request: where, how it ended, how long it took. No body, no query, no message.

The outermost layer, and the last to see an error: a traceback's last line may quote what was read, and goes nowhere.
"""

import logging
import time
import traceback
from collections.abc import Container
from pathlib import Path

from starlette._utils import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells.service.metrics import ServiceMetrics
from lmcells.service.refusal import refusal

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
