"""The service put together: routes, each behind token and limits, and around them observation and headers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

import lmcells
from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.service import explore_routes, routes
from lmcells.service.explore import Explorer, ExploringThread
from lmcells.service.guards import (
    Limits,
    Observation,
    SecurityHeaders,
    guarded_route,
    refuse_input,
    refuse_request,
    refuse_status,
)
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import BatchExpander, NoteQueue, Worker

# The page: files of the package, read once, each under a path of its own.


_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/explore.css": ("explore.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_SCRIPTS = (
    "app.js",
    "chart_lines.js",
    "chart_map.js",
    "confidence.js",
    "details.js",
    "download.js",
    "effects.js",
    "element.js",
    "explore.js",
    "explore_gate.js",
    "explore_sections.js",
    "explore_word.js",
    "heat_table.js",
    "inventory.js",
    "label_places.js",
    "markers.js",
    "note.js",
    "offsets.js",
    "sample.js",
    "service.js",
    "suggest.js",
    "tabs.js",
    "unknown_name.js",
    "views.js",
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """What is sent for a path."""

    content: bytes
    content_type: str


def page_files() -> Mapping[str, PageFile]:
    """Return the files by their path."""
    named = _FILES | {f"/{name}": (name, "text/javascript; charset=utf-8") for name in _SCRIPTS}
    folder = resources.files(__package__).joinpath("page")
    return {path: PageFile(folder.joinpath(name).read_bytes(), kind) for path, (name, kind) in named.items()}


# The service put together: routes, each behind token and limits, and around them observation and headers.


SCHEMA = "/openapi.json"
HEALTH = "/health"


def create_app(expander: Expander, settings: ServiceSettings | None = None) -> FastAPI:
    """Return the service as an ASGI application; its worker runs from start-up to shutdown."""
    settings = settings or ServiceSettings()
    metrics = ServiceMetrics()
    queue = NoteQueue()
    metrics.watch(lambda: queue.n_waiting)
    worker = Worker(queue, BatchExpander(expander, metrics), metrics)
    files = page_files()
    guarded = guarded_route(token=settings.token, limits=Limits(settings, metrics))
    protected = [
        routes.expanding(worker, settings, metrics, route_class=guarded),
        routes.inventory_listing(expander.inventory, route_class=guarded),
        explore_routes.exploring(Explorer(expander), ExploringThread(), route_class=guarded),
        routes.metrics_listing(metrics, route_class=guarded),
    ]
    protected_paths = [
        route.path for router in protected for route in router.routes if isinstance(route, APIRoute)
    ]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(worker.stop)

    app = FastAPI(
        title="lmcells",
        summary="Zero-shot clinical acronym expansion",
        version=lmcells.__version__,
        openapi_url=SCHEMA,
        docs_url=None,  # both pages load their scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        middleware=[
            Middleware(Observation, metrics=metrics, paths={*files, *protected_paths, SCHEMA, HEALTH}),
            Middleware(SecurityHeaders),
        ],
        exception_handlers={
            InputError: refuse_input,
            RequestValidationError: refuse_request,
            HTTPException: refuse_status,
        },
    )
    for router in protected:
        app.include_router(router)
    app.include_router(routes.health_check(queue, expander.inventory))
    for path, file in files.items():
        app.include_router(_file_route(path, file))
    _describe_limits(app, settings, protected_paths)
    return app


def _file_route(path: str, file: PageFile) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(path)
    async def send_file() -> Response:
        return Response(file.content, headers={"Content-Type": file.content_type})

    return router


def _describe_limits(app: FastAPI, settings: ServiceSettings, protected_paths: Sequence[str]) -> None:
    """Write the settings' limits, and the token, into the schema."""
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
                for path in protected_paths:
                    for operation in schema["paths"][path].values():
                        operation["security"] = [{"token": []}]
        return app.openapi_schema or {}

    app.openapi = with_limits  # type: ignore[method-assign]
