"""What a request must pass before its route reads it: a token, a whole body of bounded size, a free place.

Routes check these themselves, after the router has chosen one: a root path, a mount or a proxy changes the path of a
request, but never the route that answers it.
"""

import hmac

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from lmcells.service.bodies import BodyReader, replay
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.settings import ServiceSettings


def guarded_route(settings: ServiceSettings, metrics: ServiceMetrics) -> type[APIRoute]:
    """Return a class of routes that ask for a token, then apply the limits, before they read a request."""
    read_body = BodyReader(settings)
    expected = [token.encode() for token in settings.tokens]
    n_inside = 0

    class _GuardedRoute(APIRoute):
        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal n_inside
            if expected and not _shows_one_of(scope, expected):
                raise HTTPException(
                    401,
                    "a token is needed: Authorization: Bearer TOKEN.",
                    {"WWW-Authenticate": 'Bearer realm="lmcells"', "Connection": "close"},
                )
            if scope["method"] not in ("POST", "PUT", "PATCH"):
                await super().handle(scope, receive, send)
                return
            try:
                body = await read_body(scope, receive)
            except ConnectionError:
                return  # the client left: there is nobody to answer
            try:
                if n_inside >= settings.max_concurrency:
                    raise HTTPException(
                        429,
                        f"{settings.max_concurrency} requests are in progress, the most allowed. Try again later.",
                        {"Retry-After": "1"},
                    )
                n_inside += 1
                metrics.in_progress.inc()
                try:
                    await super().handle(scope, replay(body, receive), send)
                finally:
                    n_inside -= 1
                    metrics.in_progress.dec()
            finally:
                read_body.release(body)

    return _GuardedRoute


def _shows_one_of(scope: Scope, expected: list[bytes]) -> bool:
    """Compare in a time that does not depend on how much of a token is right."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
    matches = [hmac.compare_digest(token.strip(), each) for each in expected]
    return scheme.lower() == b"bearer" and any(matches)
