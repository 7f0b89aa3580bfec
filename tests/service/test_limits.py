"""Bodies that are too large or too slow, and more requests than may be in progress."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmcells import Expander
from lmcells.service import ServiceSettings
from lmcells.service.guards import Limits
from lmcells.service.metrics import ServiceMetrics
from service.serving import client


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, max_body=0.001) as running:
        running.headers["Content-Type"] = "application/json"
        yield running


def body(length: int) -> bytes:
    return json.dumps({"text": "x" * (length - len('{"text": ""}'))}).encode()


def test_a_body_may_be_as_large_as_the_limit_and_no_larger(http: TestClient) -> None:
    assert http.post("/expand", content=body(1_000)).status_code == 200
    answer = http.post("/expand", content=body(1_001))
    assert answer.status_code == 413
    assert answer.json() == {
        "detail": "the body is larger than 0.001 MB, the most allowed. Send fewer notes."
    }


def test_a_body_of_unknown_length_is_counted(http: TestClient) -> None:
    def pieces(length: int) -> Iterator[bytes]:
        whole = body(length)
        yield from (whole[:500], whole[500:])

    assert http.post("/expand", content=pieces(900)).status_code == 200
    assert http.post("/expand", content=pieces(2_000)).status_code == 413


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
            await asyncio.sleep(60)
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
        await asyncio.sleep(0.01)
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
