"""Connections that are silent, slow or too many: they are cut off, and others are not."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from lmcells import Expander
from lmcells.service import connections
from service.serving import in_thread, wait_until

HEAD = b"POST /v1/expand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def url(expander: Expander) -> Iterator[str]:
    with in_thread(expander, max_connections=20, receive_seconds=1.0, max_concurrency=4) as running:
        yield running


def connect(url: str, start: bytes = b"") -> socket.socket:
    host, _, port = url.partition("://")[2].partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(20)
    connection.sendall(start)
    return connection


def answer_of(connection: socket.socket) -> bytes:
    """Return all that is answered until the connection is closed."""
    content = b""
    while piece := _received(connection):
        content += piece
    return content


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionError:
        return b""


def is_served(url: str) -> bool:
    answer = httpx.post(f"{url}/v1/expand", json={"text": "PT"}, timeout=20)
    return answer.status_code == 200 and len(answer.json()["expansions"]) == 1


@pytest.mark.parametrize("start", [b"", HEAD[:30], HEAD, HEAD + b"Content-Length: 9\r\n\r\n{"])
def test_more_silent_connections_than_allowed_stop_nobody(url: str, start: bytes) -> None:
    with ExitStack() as open_:
        silent = [open_.enter_context(connect(url, start)) for _ in range(60)]
        for _ in range(5):
            assert is_served(url)
        assert answer_of(silent[0]) == b""  # the oldest is cut off at once
        said = answer_of(silent[-1])  # the youngest when its time is over
        assert said == b"" or said.startswith(b"HTTP/1.1 408 ")


def test_a_header_must_arrive_in_time(url: str) -> None:
    with connect(url, HEAD) as slow:
        start = time.monotonic()
        while time.monotonic() - start < 10:  # a byte now and then helps nobody
            time.sleep(0.1)
            try:
                slow.sendall(b"x")
            except ConnectionError:
                break
        assert time.monotonic() - start < 5
    with connect(url, HEAD) as slow:
        assert answer_of(slow).startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_second_request_must_arrive_in_time_too(url: str) -> None:
    with connect(url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") as slow:
        assert slow.recv(65_536).startswith(b"HTTP/1.1 200")
        slow.sendall(b"\r\n")  # ends uvicorn's own waiting
        start = time.monotonic()
        assert b"HTTP/1.1 200" not in answer_of(slow)
        assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "header",
    [
        b"X: " + b"x" * 40_000 + b"\r\n\r\n",
        b"".join(b"X-%d: x\r\n" % number for number in range(5_000)) + b"\r\n",
        b"X: " + b"x" * 3_000_000,
    ],
)
def test_large_headers_are_refused(url: str, header: bytes) -> None:
    with connect(url) as large:
        try:
            large.sendall(HEAD + header)
            said = answer_of(large)
        except ConnectionError:
            said = b""  # it was refused before all of it was sent
    assert said == b"" or said.startswith(b"HTTP/1.1 431 ")
    assert is_served(url)
    with connect(url, b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") as large:
        assert answer_of(large).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "endless", [b"X: x\r\n", b"x", b";x=y"], ids=["trailers", "a trailer", "an extension"]
)
def test_what_follows_a_body_is_limited_too(url: str, endless: bytes) -> None:
    start = b"5" if b";" in endless else b"0\r\nX: "
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(url, head + start) as large, pytest.raises(ConnectionError):
        large.sendall(endless * 5_000_000)
    assert is_served(url)


def test_a_header_after_the_body_is_ignored(url: str) -> None:
    chunks = b'5\r\n{"tex\r\n8\r\nt":"HTN"\r\n1\r\n}\r\n0\r\nX-Request-ID: trailer\r\n\r\n'
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: header\r\nConnection: close\r\n\r\n"
    with connect(url, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + last) as connection:
        answer = answer_of(connection)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"trailer" not in answer
    assert b"x-request-id: header" in answer


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\x02\x00", b"FOO / HTTP/1.1\r\n\r\n", HEAD + b"Content-Length: x\r\n\r\n"]
)
def test_what_is_not_http_is_refused_as_all_errors_are(url: str, request_: bytes) -> None:
    with connect(url, request_) as connection:
        head, _, content = answer_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
    assert content == b'{"detail":"the request is not HTTP/1.1."}'


def test_the_body_of_a_request_to_upgrade_is_not_another_request(url: str) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    body = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(url, HEAD + upgrade + b"Content-Length: %d\r\n\r\n" % len(body)) as connection:
        time.sleep(0.2)
        with suppress(ConnectionError):
            connection.sendall(body)
        said = answer_of(connection)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1
    with connect(url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n") as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")  # as HTTP allows
        connection.sendall(body)
        assert answer_of(connection).startswith(b"HTTP/1.1 200 ")


def test_bodies_that_do_not_arrive_take_no_place(url: str) -> None:
    with ExitStack() as open_:
        for _ in range(10):  # of 4 places
            open_.enter_context(connect(url, HEAD + b"Content-Length: 9\r\n\r\n{"))
        assert is_served(url)


def test_connections_that_are_used_stay(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        for _ in range(30):
            assert client.get("/livez").status_code == 200
            time.sleep(0.05)


def test_requests_in_a_row_on_one_connection_are_all_answered(url: str) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(url, request * 3 + last) as pipeline:
        assert answer_of(pipeline).count(b"HTTP/1.1 200 OK") == 4
    with connect(url, request * 2_000) as pipeline:  # too many to remember
        assert answer_of(pipeline).count(b"HTTP/1.1 200 OK") <= connections.MAX_PIPELINE
    assert is_served(url)


def test_who_does_not_read_the_answer_is_cut_off(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.5)
    with in_thread(expander) as url, connect(url) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        body = b'{"text":"' + b"PT " * 8_000 + b'"}'
        deaf.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: "lmcells_notes_total 1.0" in httpx.get(f"{url}/metrics").text)
        wait_until(lambda: "lmcells_requests_in_progress 0.0" in httpx.get(f"{url}/metrics").text)
        is_cut = False
        for _ in range(50):
            try:
                deaf.sendall(b"x")
            except ConnectionError:
                is_cut = True
                break
            time.sleep(0.1)
        assert is_cut


# TLS


HELLO = bytes.fromhex("1603010200010001fc0303")  # how a handshake begins


@pytest.fixture
def tls_url(expander: Expander, certificate: tuple[Path, Path]) -> Iterator[str]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    with in_thread(expander, tls=tls, max_connections=20, receive_seconds=1.0) as running:
        yield running


@pytest.fixture
def tls_client(tls_url: str, certificate: tuple[Path, Path]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=tls_url, verify=ssl.create_default_context(cafile=certificate[0])) as client:
        yield client


@pytest.mark.parametrize("start", [b"", HELLO])
def test_handshakes_that_are_not_completed_stop_nobody(
    tls_url: str, tls_client: httpx.Client, start: bytes
) -> None:
    begin = time.monotonic()
    with ExitStack() as open_:
        silent = [open_.enter_context(connect(tls_url, start)) for _ in range(60)]
        assert tls_client.post("/v1/expand", json={"text": "PT"}).status_code == 200
        assert answer_of(silent[0]) == b""  # the oldest is cut off at once
        assert time.monotonic() - begin < 1.0
        assert answer_of(silent[-1]) == b""  # the youngest when its time is over
        assert 1.0 <= time.monotonic() - begin < 5.0
    assert tls_client.get("/livez").status_code == 200


def test_what_is_no_handshake_is_cut_off(tls_url: str, tls_client: httpx.Client) -> None:
    with connect(tls_url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") as plain:
        assert b"HTTP" not in answer_of(plain)
    assert tls_client.get("/livez").status_code == 200


def test_over_tls_a_header_must_arrive_in_time_too(tls_url: str, certificate: tuple[Path, Path]) -> None:
    trusting = ssl.create_default_context(cafile=certificate[0])
    with trusting.wrap_socket(connect(tls_url), server_hostname="127.0.0.1") as slow:
        slow.sendall(HEAD)
        assert answer_of(slow).startswith(b"HTTP/1.1 408 Request Timeout")
    with trusting.wrap_socket(connect(tls_url), server_hostname="127.0.0.1") as whole:
        body = b'{"text":"' + b"PT " * 8_000 + b'"}'
        whole.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert answer_of(whole).count(b'"short_form":"PT"') == 8_000
