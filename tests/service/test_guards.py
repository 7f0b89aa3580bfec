"""What a request must pass: the token, wherever the application is mounted, and the limits on body and number."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells import Expander
from lmcells.errors import ConfigError
from lmcells.service import ServiceSettings
from lmcells.service.app import create_app
from lmcells.service.guards import Limits
from lmcells.service.metrics import ServiceMetrics
from service.serving import client, served

TOKEN = "correct horse"


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, token=TOKEN) as running:
        yield running


GUARDED = ("inventory", "metrics", "explore/start", "explore/names?kind=word")


@pytest.mark.parametrize(
    "header", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x"]
)
def test_without_the_token_nothing_is_answered(http: TestClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        http.post("/expand", json={"text": "PT"}, headers=headers),
        *(http.get(f"/{path}", headers=headers) for path in GUARDED),
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
            *(http.get(f"{prefix}/{path}") for path in GUARDED),
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


@pytest.fixture(scope="module")
def small(expander: Expander) -> Iterator[TestClient]:
    with client(expander, max_body=0.001) as running:
        running.headers["Content-Type"] = "application/json"
        yield running


def body(length: int) -> bytes:
    return json.dumps({"text": "x" * (length - len('{"text": ""}'))}).encode()


def test_a_body_may_be_as_large_as_the_limit_and_no_larger(small: TestClient) -> None:
    assert small.post("/expand", content=body(1_000)).status_code == 200
    answer = small.post("/expand", content=body(1_001))
    assert answer.status_code == 413
    assert answer.json() == {
        "detail": "the body is larger than 0.001 MB, the most allowed. Send fewer notes."
    }


def test_a_body_of_unknown_length_is_counted(small: TestClient) -> None:
    def pieces(length: int) -> Iterator[bytes]:
        whole = body(length)
        yield from (whole[:500], whole[500:])

    assert small.post("/expand", content=pieces(900)).status_code == 200
    assert small.post("/expand", content=pieces(2_000)).status_code == 413


class Inside:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        self.bodies.append((await receive())["body"])
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(app: ASGIApp, *pieces: Message, hangs: bool = False) -> tuple[int, dict[str, str], Any]:
    """Send a request as a server would; -> status, headers and what was said."""

    async def given() -> AsyncIterator[Message]:
        for piece in pieces:
            yield piece
        if hangs:
            await asyncio.Event().wait()
        yield {"type": "http.disconnect"}

    messages = given()
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/expand", "headers": []}
    await app(scope, messages.__anext__, send)
    if not sent:
        return 0, {}, None
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


def piece(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": content, "more_body": more}


def limits(inside: Inside, **settings: Any) -> ASGIApp:
    return partial(Limits(ServiceSettings(**settings), ServiceMetrics()), inside)


def test_one_request_too_many_is_asked_to_come_back() -> None:
    async def run() -> None:
        inside = Inside()
        app = limits(inside, max_concurrency=2)
        first = [asyncio.create_task(ask(app, piece(b"a"))) for _ in range(2)]
        while len(inside.bodies) < 2:
            await asyncio.sleep(0)
        status, headers, said = await ask(app, piece(b"b"))
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(said)["detail"].startswith("2 requests are in progress")
        inside.go_on.set()
        assert [(await each)[0] for each in first] == [200, 200]
        assert (await ask(app, piece(b"c")))[0] == 200
        assert inside.bodies == [b"a", b"a", b"c"]

    asyncio.run(run())


def test_a_body_that_does_not_arrive_makes_room_for_others() -> None:
    async def run() -> None:
        inside = Inside()
        inside.go_on.set()
        app = limits(inside, max_concurrency=1, body_seconds=0.05)
        status, headers, _ = await ask(app, piece(b"a", more=True), hangs=True)
        assert (status, headers["connection"]) == (408, "close")
        assert (await ask(app, piece(b"b")))[0] == 200

    asyncio.run(run())


def test_a_client_that_leaves_while_sending_makes_room_for_others() -> None:
    async def run() -> None:
        inside = Inside()
        inside.go_on.set()
        app = limits(inside, max_concurrency=1)
        assert (await ask(app, piece(b"a", more=True)))[0] == 0
        assert (await ask(app, piece(b"b")))[0] == 200
        assert inside.bodies == [b"b"]

    asyncio.run(run())
