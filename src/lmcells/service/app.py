"""The service put together: routes, each behind token and limits, and around them observation and headers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
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
from lmcells.service.authorisation import guarded_route
from lmcells.service.batch_expander import BatchExpander
from lmcells.service.explore import Explorer
from lmcells.service.exploring_thread import ExploringThread
from lmcells.service.limits import Limits
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.note_queue import NoteQueue
from lmcells.service.observation import Observation
from lmcells.service.page_files import PageFile, page_files
from lmcells.service.refusal import refuse_input, refuse_request, refuse_status
from lmcells.service.security_headers import SecurityHeaders
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import Worker

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
