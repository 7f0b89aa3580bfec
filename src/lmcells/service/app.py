"""The service as an ASGI application: its routes, pages, guards and middleware."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, Response

import lmcells
from lmcells.expansion.expander import Expander
from lmcells.service import api_page, review_routes, routes
from lmcells.service.explore import explore_router
from lmcells.service.guards import guarded_route
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import ERROR_HANDLERS, Compression, Observation
from lmcells.service.settings import ServiceSettings
from lmcells.service.worker import Workers

VERSION = "/v1"
SCHEMA = "/openapi.json"
DOCUMENTATION = "/docs"

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

    It answers `/v1/expand`, `/v1/inventory`, `/v1/explore/...`, `/metrics` and the probes `/health`, `/livez` and
    `/readyz`, and serves its page at `/` and that of the API at `/docs`. Notes are expanded by threads that start with
    the first request; on shutdown, requests already accepted are answered.

    Args:
        expander: The model and inventory to serve.
        settings: Limits and tokens; the defaults ask for no token.
    """
    settings = settings or ServiceSettings()
    metrics = ServiceMetrics(n_waiting=lambda: workers.n_waiting)
    workers = Workers(expander, metrics)

    guarded = guarded_route(settings, metrics)
    api = APIRouter(route_class=guarded)
    routes.add_expand(api, workers, settings, metrics)
    routes.add_inventory(api, expander.inventory)
    explore = explore_router(expander, route_class=guarded)
    api.include_router(explore)
    unversioned = APIRouter(route_class=guarded)
    routes.add_metrics(unversioned, metrics)
    reviews = review_routes.review_router(expander, settings, route_class=guarded)
    probes = APIRouter()
    routes.add_probes(probes, workers, expander.inventory)
    files = page_files(has_reviews=settings.reviews is not None)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(workers.stop)

    old = [*_paths(api), *_paths(explore)]  # deprecated paths, from before there were versions
    successors = {path: VERSION + path for path in old}
    others = [*_paths(unversioned), *(VERSION + path for path in _paths(reviews))]
    app = FastAPI(
        title="lmcells",
        summary="Zero-shot clinical acronym expansion",
        version=lmcells.__version__,
        openapi_url=SCHEMA,
        docs_url=None,  # both load third-party scripts
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        middleware=[
            Middleware(
                Observation,
                metrics=metrics,
                paths={*files, *successors, *successors.values(), *others}
                | {*routes.PROBES, SCHEMA, DOCUMENTATION},
                probes=routes.PROBES,
                successors=successors,
                allowed_hosts=frozenset(name.lower() for name in settings.allowed_hosts),
            ),
            Middleware(Compression),
        ],
        exception_handlers=ERROR_HANDLERS,
    )
    app.include_router(api, prefix=VERSION)
    app.include_router(api, include_in_schema=False)
    app.include_router(reviews, prefix=VERSION)
    app.include_router(unversioned)
    app.include_router(probes)

    async def send(page: Response) -> Response:
        return page

    for path, (content, content_type) in files.items():
        page = Response(content, headers={"Content-Type": content_type})
        app.get(path, include_in_schema=False)(partial(send, page))
    _complete_schema(app, settings, {*successors.values(), *others})

    @app.get(DOCUMENTATION, include_in_schema=False)
    async def show_api() -> HTMLResponse:
        return HTMLResponse(api_page.render(app.openapi()))

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


def _paths(router: APIRouter) -> list[str]:
    return [route.path for route in router.routes if isinstance(route, APIRoute)]


def _complete_schema(app: FastAPI, settings: ServiceSettings, protected: Collection[str]) -> None:
    """Add to the schema the bodies that routes read themselves, the limits of the settings, and the token."""
    describe = app.openapi

    def completed() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = describe()
            models = schema["components"]["schemas"]
            asked = [*routes.REQUESTS, *(review_routes.REQUESTS if settings.reviews else ())]
            requests = [(model, "validation") for model in asked]
            _, definitions = models_json_schema(requests, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            models.update(definitions["$defs"])
            for model in ("NoteMessage", "OneNote"):
                models[model]["properties"]["text"]["maxLength"] = settings.max_note_length
            models["ManyNotes"]["properties"]["notes"]["maxItems"] = settings.max_notes
            if settings.tokens:
                schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                for path in protected:
                    for operation in schema["paths"][path].values():
                        operation["security"] = [{"token": []}]
        return app.openapi_schema or {}

    app.openapi = completed  # type: ignore[method-assign]
