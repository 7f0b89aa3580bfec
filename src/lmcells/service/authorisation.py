"""Who may ask: anyone, or whoever shows the token."""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from lmcells.service.refusal import refusal

EXPLORED = (
    "start",
    "names",
    "neighbors",
    "senses",
    "interpolation",
    "sections",
    "nearest-sections",
    "mixture",
)
PROTECTED = frozenset({"/expand", "/inventory", "/metrics", *(f"/explore/{name}" for name in EXPLORED)})
"""What needs the token. The page and the schema hold no data, and a health check has none to show."""


class Authorisation:
    """Asks for `Authorization: Bearer TOKEN`, and compares in a time that tells nothing."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 401."""
        if scope["type"] != "http" or scope["path"] not in PROTECTED or self._is_shown(scope):
            await self._app(scope, receive, send)
            return
        answer = refusal(
            401,
            "a token is needed: Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": 'Bearer realm="lmcells"'},
            closes=True,
        )
        await answer(scope, receive, send)

    def _is_shown(self, scope: Scope) -> bool:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)
