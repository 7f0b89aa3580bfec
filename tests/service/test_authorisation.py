"""With a token, who does not show it is refused; the page, the schema and the health check are for all."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lmcells import Expander
from lmcells.errors import ConfigError
from lmcells.service import ServiceSettings
from lmcells.service.app import create_app
from service.serving import client, served

TOKEN = "correct horse"


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, token=TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    "header", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x"]
)
def test_without_the_token_nothing_is_answered(http: TestClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        http.post("/expand", json={"text": "PT"}, headers=headers),
        http.get("/inventory", headers=headers),
        http.get("/metrics", headers=headers),
        http.get("/explore/start", headers=headers),
        http.get("/explore/names", params={"kind": "word"}, headers=headers),
    ):
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="lmcells"'
        assert answer.json() == {"detail": "a token is needed: Authorization: Bearer TOKEN."}


def test_with_the_token_all_is_answered(http: TestClient) -> None:
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} {TOKEN}"}
        assert http.post("/expand", json={"text": "PT"}, headers=headers).status_code == 200
        assert http.get("/inventory", headers=headers).status_code == 200
        assert http.get("/metrics", headers=headers).status_code == 200


def test_some_paths_need_no_token(http: TestClient) -> None:
    for path in ("/", "/style.css", "/health", "/openapi.json"):
        assert http.get(path).status_code == 200
    schema = http.get("/openapi.json").json()
    assert schema["paths"]["/expand"]["post"]["security"] == [{"token": []}]


@pytest.mark.parametrize("mounted", [True, False])
def test_neither_a_mount_nor_a_root_path_lets_anyone_in(expander: Expander, mounted: bool) -> None:
    """A root path and a mount change the path that an application sees; a proxy may strip the prefix or leave it."""
    app: ASGIApp = create_app(expander, ServiceSettings(token=TOKEN))
    if mounted:  # the parent runs no lifespan of the mounted application
        app = Starlette(routes=[Mount("/acronyms", app=app)])
        prefixes, root_path = ["/acronyms"], ""
    else:
        prefixes, root_path = ["/acronyms", ""], "/acronyms"
    http = TestClient(app, root_path=root_path)
    for prefix in prefixes:
        for answer in (
            http.post(f"{prefix}/expand", json={"text": "PT"}),
            http.post(f"{prefix}/expand", content=b"x" * 20_000_000),  # refused before it is read
            http.get(f"{prefix}/inventory"),
            http.get(f"{prefix}/metrics"),
            http.get(f"{prefix}/explore/start"),
        ):
            assert answer.status_code == 401, (prefix, answer.url)
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert http.get(f"{prefix}/health").status_code == 200
        answer = http.post(f"{prefix}/expand", json={"text": "Pt in PT."}, headers=shown)
        assert answer.status_code == 200
        assert answer.json()["expansions"]
        assert 'path="/expand"' in http.get(f"{prefix}/metrics", headers=shown).text


def test_behind_a_proxy_with_a_root_path_the_token_is_asked_for(folder: Path) -> None:
    with served(folder, "--root-path", "/acronyms", environment={"LMCELLS_TOKEN": TOKEN}) as server:
        shown = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-Prefix": "/acronyms"}
        assert httpx.post(f"{server.url}/expand", json={"text": "PT"}).status_code == 401
        assert httpx.post(f"{server.url}/expand", json={"text": "PT"}, headers=shown).status_code == 200
        # The proxy is expected to strip the prefix; a path that still has it is unknown.
        assert httpx.post(f"{server.url}/acronyms/expand", json={"text": "PT"}).status_code == 404


def test_two_headers_are_one_too_many(http: TestClient) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert http.get("/metrics", headers=headers).status_code == 401


def test_a_token_that_no_header_can_carry_is_refused() -> None:
    for token in ("", " x", "x\n", "é"):
        with pytest.raises(ConfigError):
            ServiceSettings(token=token)
    assert TOKEN not in repr(ServiceSettings(token=TOKEN))
