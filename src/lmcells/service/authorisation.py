"""Who may ask: anyone, or whoever shows the token.

The token is checked by the routes themselves, after the router has found which one a request is for: a root path, a
mount or a proxy changes the path of a request, but never the route that answers it.
"""

import hmac

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from lmcells.service.limits import Limits
from lmcells.service.refusal import refusal


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
