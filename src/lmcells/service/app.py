"""The service as an ASGI application: its routes, its page, and what guards and surrounds them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.responses import Response

import lmcells
from lmcells.expansion.expander import Expander
from lmcells.service import routes
from lmcells.service.explore import explore_router
from lmcells.service.guards import guarded_route
from lmcells.service.jobs import NoteQueue
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import ERROR_HANDLERS, Observation
from lmcells.service.review_routes import review_router
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import Worker

SCHEMA = "/openapi.json"
HEALTH = "/health"

_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def create_app(expander: Expander, settings: ServiceSettings | None = None) -> FastAPI:
    """Return the service as an ASGI application, to be run by any server or mounted in another application.

    ```python
    app = create_app(Expander.from_pretrained(), ServiceSettings(max_concurrency=32))
    ```

    It answers `/expand`, `/inventory`, `/explore/...`, `/metrics` and `/health`, and serves its page at `/`. Notes are
    expanded by one thread, which starts with the first request; on shutdown, requests already accepted are answered.

    Args:
        expander: The model and inventory to serve.
        settings: Limits and the token; the defaults ask for no token.
    """
    settings = settings or ServiceSettings()
    queue = NoteQueue()
    metrics = ServiceMetrics(n_waiting=lambda: queue.n_waiting)
    worker = Worker(queue, expander, metrics)

    guarded = guarded_route(settings, metrics)
    api = APIRouter(route_class=guarded)
    routes.add_expand(api, worker, settings, metrics)
    routes.add_inventory(api, expander.inventory)
    routes.add_metrics(api, metrics)
    api.include_router(explore_router(expander, route_class=guarded))
    api.include_router(review_router(expander, settings, route_class=guarded))
    protected = [route.path for route in api.routes if isinstance(route, APIRoute)]
    public = APIRouter()
    routes.add_health(public, queue, expander.inventory)
    files = page_files(has_reviews=settings.reviews is not None)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(worker.stop)

    app = FastAPI(
        title="lmcells",
        summary="Zero-shot clinical acronym expansion",
        version=lmcells.__version__,
        openapi_url=SCHEMA,
        docs_url=None,  # both pages of documentation load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        middleware=[Middleware(Observation, metrics=metrics, paths={*files, *protected, SCHEMA, HEALTH})],
        exception_handlers=ERROR_HANDLERS,
    )
    app.include_router(api)
    app.include_router(public)
    for path, (content, content_type) in files.items():
        _add_file(app, path, content, content_type)
    _describe_limits(app, settings, protected)
    return app


def page_files(*, has_reviews: bool = False) -> dict[str, tuple[bytes, str]]:
    """Return the files of the page, as content and content type by path; the page itself is at "/"."""
    files = {}
    for file in resources.files(__package__).joinpath("page").iterdir():
        suffix = file.name[file.name.rindex(".") :]
        path = "/" if file.name == "index.html" else f"/{file.name}"
        files[path] = (file.read_bytes(), _CONTENT_TYPES[suffix])
    if has_reviews:
        page, content_type = files["/"]
        files["/"] = page.replace(b"<body>", b'<body data-reviews="on">'), content_type
    return files


def _add_file(app: FastAPI, path: str, content: bytes, content_type: str) -> None:
    @app.get(path, include_in_schema=False)
    async def send_file() -> Response:
        return Response(content, headers={"Content-Type": content_type})


def _describe_limits(app: FastAPI, settings: ServiceSettings, protected: Sequence[str]) -> None:
    """Write the limits of the settings, and the token, into the schema."""
    describe = app.openapi

    def with_limits() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = describe()
            models = schema["components"]["schemas"]
            for model in ("NoteMessage", "OneNote"):
                models[model]["properties"]["text"]["maxLength"] = settings.max_note_length
            models["ManyNotes"]["properties"]["notes"]["maxItems"] = settings.max_notes
            if settings.token:
                schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                for path in protected:
                    for operation in schema["paths"][path].values():
                        operation["security"] = [{"token": []}]
        return app.openapi_schema or {}

    app.openapi = with_limits  # type: ignore[method-assign]
