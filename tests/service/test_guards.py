"""What a request must pass: the token, wherever the application is mounted, and the limits on body and number."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message

from lmcells import Expander
from lmcells.errors import ConfigError
from lmcells.service import ServiceSettings
from lmcells.service.app import create_app
from lmcells.service.guards import JsonCounter, guarded_route
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import ERROR_HANDLERS
from lmcells.service.settings import read_tokens
from service.serving import client, served

TOKEN = "correct horse"


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, token=TOKEN) as running:
        yield running


GUARDED = (
    *("inventory", "metrics", "explore/start", "explore/names?kind=word"),
    *("v1/inventory", "v1/explore/start", "v1/explore/names?kind=word"),
)


@pytest.mark.parametrize(
    "header", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x"]
)
def test_without_the_token_nothing_is_answered(http: TestClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        http.post("/expand", json={"text": "PT"}, headers=headers),
        http.post("/v1/expand", json={"text": "PT"}, headers=headers),
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
    for path in ("/", "/style.css", "/health", "/livez", "/readyz", "/openapi.json", "/docs"):
        assert http.get(path).status_code == 200
    schema = http.get("/openapi.json").json()
    assert schema["paths"]["/v1/expand"]["post"]["security"] == [{"token": []}]


@pytest.mark.parametrize("mounted", [True, False])
def test_neither_a_mount_nor_a_root_path_lets_anyone_in(expander: Expander, mounted: bool) -> None:
    """A root path and a mount change the path that an application sees; a proxy may strip the prefix or leave it."""
    app: ASGIApp = create_app(expander, ServiceSettings(tokens=(TOKEN,)))
    if mounted:  # the parent runs no lifespan of the mounted application
        app = Starlette(routes=[Mount("/acronyms", app=app)])
        prefixes, root_path = ["/acronyms"], ""
    else:
        prefixes, root_path = ["/acronyms", ""], "/acronyms"
    http = TestClient(app, root_path=root_path)
    for prefix in prefixes:
        for answer in (
            http.post(f"{prefix}/expand", json={"text": "PT"}),
            http.post(f"{prefix}/v1/expand", json={"text": "PT"}),
            http.post(f"{prefix}/expand", content=b"x" * 20_000_000),  # refused before it is read
            *(http.get(f"{prefix}/{path}") for path in GUARDED),
        ):
            assert answer.status_code == 401, (prefix, answer.url)
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert http.get(f"{prefix}/health").status_code == 200
        assert http.get(f"{prefix}/readyz").status_code == 200
        answer = http.post(f"{prefix}/v1/expand", json={"text": "Pt in PT."}, headers=shown)
        assert answer.status_code == 200
        assert answer.json()["expansions"]
        assert 'path="/v1/expand"' in http.get(f"{prefix}/metrics", headers=shown).text


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


def test_any_of_several_tokens_is_enough(expander: Expander, tmp_path: Path) -> None:
    file = tmp_path / "tokens.txt"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n# of the ward\n\n  second \n")  # as Windows may save it
    app = create_app(expander, ServiceSettings(tokens=read_tokens(file)))
    http = TestClient(app)
    for token, status in (("first", 200), ("second", 200), ("# of the ward", 401), ("third", 401)):
        assert http.get("/v1/inventory", headers={"Authorization": f"Bearer {token}"}).status_code == status


def test_a_token_that_no_header_can_carry_is_refused_with_a_line_that_helps(tmp_path: Path) -> None:
    for token, why in (("", "is empty"), (" x", "a space"), ("x\n", "control"), ("é", "non-ASCII")):
        with pytest.raises(ConfigError, match=f"token 2 of 2 .*{why}.* Allowed: printable ASCII"):
            ServiceSettings(tokens=("fine", token))
    assert TOKEN not in repr(ServiceSettings(tokens=(TOKEN,)))
    (tmp_path / "empty").write_text("# none\n")
    with pytest.raises(ConfigError, match="contains no token"):
        read_tokens(tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot read"):
        read_tokens(tmp_path / "nowhere")


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


# Bodies


class Server:
    """An application with one guarded route that answers when it is told to, asked as a server asks."""

    def __init__(self, **settings: Any) -> None:
        self.go_on = asyncio.Event()
        self.bodies: list[bytes] = []
        route = guarded_route(ServiceSettings(**settings), ServiceMetrics())
        self.app = FastAPI(exception_handlers=ERROR_HANDLERS)
        router = APIRouter(route_class=route)

        @router.post("/")
        async def answer(request: Request) -> str:
            self.bodies.append(bytes(await request.body()))
            await self.go_on.wait()
            return "fine"

        self.app.include_router(router)

    async def ask(
        self, *pieces: bytes, hangs: bool = False, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Send a body in pieces, and then nothing, or leave; -> status, headers and what was said."""

        async def given() -> AsyncIterator[Message]:
            for number, content in enumerate(pieces, start=1):
                more = hangs or number < len(pieces) or not pieces[-1]
                yield {"type": "http.request", "body": content, "more_body": more}
            if hangs:
                await asyncio.Event().wait()
            yield {"type": "http.disconnect"}

        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw}
        await self.app(scope, given().__anext__, send)
        if not sent:
            return 0, {}, None
        said = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], said, sent[1]["body"].decode()


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop."""
    return wraps(test)(lambda: asyncio.run(test()))


@in_loop
async def test_one_request_too_many_is_asked_to_come_back() -> None:
    server = Server(max_concurrency=2)
    first = [asyncio.create_task(server.ask(b"a")) for _ in range(2)]
    while len(server.bodies) < 2:
        await asyncio.sleep(0)
    status, headers, said = await server.ask(b"b")
    assert (status, headers["retry-after"]) == (429, "1")
    assert json.loads(said)["detail"].startswith("2 requests are in progress")
    server.go_on.set()
    assert [(await each)[0] for each in first] == [200, 200]
    assert (await server.ask(b"c"))[0] == 200
    assert server.bodies == [b"a", b"a", b"c"]


@in_loop
async def test_a_body_takes_no_place_before_it_has_arrived() -> None:
    server = Server(max_concurrency=1, receive_seconds=0.2)
    server.go_on.set()
    slow = [asyncio.create_task(server.ask(b"a", hangs=True)) for _ in range(130)]
    await asyncio.sleep(0.01)
    assert (await server.ask(b"b"))[0] == 200
    answers = [await each for each in slow]
    assert {(status, headers["connection"]) for status, headers, _ in answers} == {(408, "close")}


@in_loop
async def test_a_client_that_leaves_while_sending_is_forgotten() -> None:
    server = Server(max_concurrency=1)
    server.go_on.set()
    assert (await server.ask(b"a", b""))[0] == 0
    assert (await server.ask(b"b"))[0] == 200
    assert server.bodies == [b"b"]


@in_loop
async def test_large_bodies_share_a_bounded_memory_and_small_ones_pass() -> None:
    server = Server(max_body=0.1, receive_seconds=0.3)
    server.go_on.set()
    large = [asyncio.create_task(server.ask(b"x" * 90_000, hangs=True)) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert [each.result()[0] for each in large if each.done()] == [429] * 12  # 8 x 0.1 MB are held
    assert (await server.ask(b"x" * 60_000))[0] == 200
    assert {(await each)[0] for each in large} == {429, 408}
    assert (await server.ask(b"x" * 90_000))[0] == 200  # all is given back


@in_loop
async def test_a_body_may_be_gzip_data_within_the_limit() -> None:
    server = Server(max_body=0.1)
    server.go_on.set()
    text = json.dumps({"text": "gait " * 15_000}).encode()
    packed = gzip.compress(text)
    halves = packed[:100], packed[100:]
    assert (await server.ask(*halves, content_encoding="gzip"))[0] == 200
    assert server.bodies == [text]
    bomb = gzip.compress(b" " * 200_000_000)
    assert (await server.ask(bomb, content_encoding="gzip"))[0] == 413
    for wrong, status in ((packed[:-9], 400), (b"not packed", 400), (packed + b"more", 400)):
        assert (await server.ask(wrong, content_encoding="gzip"))[0] == status
    status, headers, _ = await server.ask(text, content_encoding="br")
    assert (status, headers["accept-encoding"]) == (415, "gzip")
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "entries",
    [b'{"text":"PT","inventory":{"add":[' + b"{}," * 2_000_000, b'{"notes":[' + b'{"text":""},' * 640_000],
)
def test_a_body_of_many_values_is_refused_before_it_is_parsed(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, entries: bytes
) -> None:
    monkeypatch.setattr("lmcells.service.routes.read_request", lambda *_: pytest.fail("it was parsed"))
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = http.post("/v1/expand", content=entries + b"]}", headers=headers)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("the body has more than 30,000 values.")


VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('",\\[{:é\n ')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('a,"\\')), inner),
    max_leaves=20,
)


@given(value=VALUES, cuts=st.lists(st.integers(0, 200), max_size=5), spaced=st.booleans())
def test_values_are_counted_in_whatever_pieces_they_come(value: Any, cuts: list[int], spaced: bool) -> None:
    def n_commas(given: Any) -> int:
        inside = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
        return max(0, len(inside) - 1) + sum(map(n_commas, inside))

    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=not spaced).encode()
    counter = JsonCounter()
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        counter.feed(text[start:end] if start < end else b"")
    assert counter.n_values == 1 + n_commas(value)


def test_counting_takes_linear_time() -> None:
    for text in (b'"' + b'\\"' * 500_000, b'"' * 1_000_001, b"\\" * 1_000_001):
        start = time.perf_counter()
        JsonCounter().feed(text)
        assert time.perf_counter() - start < 5
