"""The service as a process: signals, several clients, several workers, clients that leave."""

import gc
import json
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from lmcells.errors import ConfigError, InputError
from lmcells.expansion.settings import ExpanderSettings
from lmcells.service import ServiceSettings
from lmcells.service.server import ServerOptions, freeze_loaded, listen, serve, url
from service.serving import NOTE, SECRET, Served, served, wait_until

LARGE = {"notes": [{"text": f"{NOTE} {SECRET} " * 40}] * 30}  # takes a while


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder, "--max-concurrency", "4", "--max-body", "2") as running:
        yield running


def metrics(server: Served) -> str:
    return httpx.get(f"{server.url}/metrics").text


def given_up(server: Served) -> float:
    return float(metrics(server).partition("\nlmcells_requests_given_up_total ")[2].split()[0])


@contextmanager
def in_progress(server: Served) -> Iterator[list[httpx.Response]]:
    """A large request that was taken; its answer is there in the end."""
    answers: list[httpx.Response] = []
    ask = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{server.url}/v1/expand", json=LARGE, timeout=60))
    )
    ask.start()
    wait_until(lambda: "lmcells_requests_in_progress 1.0" in metrics(server))
    yield answers
    ask.join()


def test_it_listens_on_this_machine_only(server: Served) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert "no token" not in server.log
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"


def test_clients_at_one_time_are_all_answered(server: Served) -> None:
    def ask(number: int) -> list[int]:
        notes = [{"text": "PT " * (number + 1)}, {"text": "no short form"}]
        answer = httpx.post(f"{server.url}/v1/expand", json={"notes": notes}, timeout=30)
        return [len(note["expansions"]) for note in answer.json()["notes"]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(20))) == [[number + 1, 0] for number in range(20)]


def test_too_many_at_one_time_are_told_when_to_come_back(server: Served) -> None:
    def ask(_: int) -> tuple[int, str | None]:
        answer = httpx.post(f"{server.url}/v1/expand", json=LARGE, timeout=60)
        return answer.status_code, answer.headers.get("Retry-After")

    with ThreadPoolExecutor(12) as pool:
        answers = set(pool.map(ask, range(12)))
    assert answers == {(200, None), (429, "1")}


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Served) -> None:
    answer = httpx.post(f"{server.url}/v1/expand", content=b"x" * 3_000_000, timeout=30)
    assert answer.status_code == 413


@pytest.mark.parametrize("accepted", ["application/json", "application/x-ndjson"])
def test_work_for_a_client_that_left_is_dropped(server: Served, accepted: str) -> None:
    note = {"text": f"{NOTE} {SECRET} " * 400, "explain": True}  # whose answer is one line
    body = json.dumps(LARGE if accepted == "application/json" else note).encode()
    n_before = given_up(server)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST /v1/expand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Accept: %s\r\nContent-Length: %d\r\n\r\n" % (accepted.encode(), len(body)) + body
        )
        wait_until(lambda: "lmcells_requests_in_progress 1.0" in metrics(server))
    wait_until(lambda: given_up(server) == n_before + 1)
    wait_until(lambda: "lmcells_requests_in_progress 0.0" in metrics(server))


def test_a_signal_ends_it_after_what_was_taken_is_answered(folder: Path) -> None:
    with served(folder) as server:
        with in_progress(server) as answers:
            assert server.stop() == 0
        assert [answer.status_code for answer in answers] == [200]
        assert len(answers[0].json()["notes"]) == len(LARGE["notes"])
        assert SECRET not in server.log
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health")


def test_several_workers_answer_and_count_together(folder: Path) -> None:
    with served(folder, "--workers", "2", environment={"LMCELLS_TOKEN": "open sesame"}) as server:
        headers = {"Authorization": "Bearer open sesame"}
        wait_until(lambda: is_up(server))
        assert httpx.get(f"{server.url}/metrics", timeout=20).status_code == 401
        for _ in range(12):
            answer = httpx.post(f"{server.url}/v1/expand", json={"text": NOTE}, headers=headers, timeout=20)
            assert answer.status_code == 200
        counted = httpx.get(f"{server.url}/metrics", headers=headers).text
        assert "lmcells_notes_total 12.0" in counted
        assert server.stop() == 0


def is_up(server: Served) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200
    except httpx.TransportError:
        return False


def children(server: Served) -> list[psutil.Process]:
    """The processes that listen: beside the workers, Python runs one that tracks resources."""
    found = []
    for process in psutil.Process(server.process.pid).children():
        with suppress(psutil.NoSuchProcess, FileNotFoundError):  # it has just ended
            if any(each.status == psutil.CONN_LISTEN for each in process.net_connections("tcp")):
                found.append(process)
    return found


@pytest.fixture
def pair(folder: Path) -> Iterator[Served]:
    """A service of two worker processes."""
    with served(folder, "--workers", "2") as server:
        wait_until(lambda: len(children(server)) == 2)
        yield server


def test_bursts_are_spread_over_the_workers(pair: Served) -> None:
    with ExitStack() as open_:
        for _ in range(200):
            open_.enter_context(socket.create_connection(("127.0.0.1", pair.port)))
        wait_until(lambda: sum(connected(pair)) >= 200)
        assert min(connected(pair)) > 50


def connected(server: Served) -> list[int]:
    return [
        sum(each.status == psutil.CONN_ESTABLISHED for each in process.net_connections("tcp"))
        for process in children(server)
    ]


def test_a_killed_worker_loses_only_what_it_was_working_on(pair: Served) -> None:
    """Under load, requests fail only if they were with the worker that was killed; then all is as before."""
    first, second = children(pair)
    failed: list[float] = []
    n_answered = 0
    ends_at = time.monotonic() + 3.5

    def ask(_: int) -> None:
        nonlocal n_answered
        while time.monotonic() < ends_at:
            begin = time.monotonic()
            try:
                answer = httpx.post(
                    f"{pair.url}/v1/expand", json={"notes": [{"text": NOTE * 20}] * 5}, timeout=30
                )
                assert len(answer.json()["notes"]) == 5
                n_answered += 1
            except httpx.TransportError:
                failed.append(begin)

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, number) for number in range(8)]
        time.sleep(1)
        first.kill()
        killed = time.monotonic()
        for each in asking:
            each.result()
    assert n_answered > 8
    assert len(failed) <= 8  # clients at a time, some of them with the other worker
    assert all(begin <= killed + 0.5 for begin in failed)
    wait_until(lambda: len(children(pair)) == 2)
    assert second.pid in [process.pid for process in children(pair)]
    assert "lmcells_requests_in_progress 0.0" in metrics(pair)
    assert "ended with -9; starting another" in pair.log
    assert pair.stop() == 0


def test_a_signal_to_several_workers_leaves_nobody_hanging(pair: Served) -> None:
    """What was accepted is answered; new connections are refused at once, not kept waiting and then reset."""
    with in_progress(pair) as answers:
        pair.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not children(pair))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", pair.port), timeout=5)
    assert [answer.status_code for answer in answers] == [200]
    assert pair.process.wait(20) == 0


def test_several_workers_end_when_their_terminal_is_closed(pair: Served) -> None:
    workers = children(pair)
    pair.process.send_signal(signal.SIGHUP)
    assert pair.process.wait(20) == 0
    assert not any(process.is_running() for process in workers)


def test_workers_end_with_their_parent(pair: Served) -> None:
    workers = children(pair)
    pair.process.kill()
    wait_until(lambda: not any(process.is_running() for process in workers))


def test_tls_tokens_from_a_file_and_a_log_of_json(
    folder: Path, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("one\ntwo\n")
    tls = ("--tls-certificate", str(certificate[0]), "--tls-key", str(certificate[1]))
    with served(folder, *tls, "--token-file", str(tokens), "--log-format", "json") as server:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certificate[0])
        with httpx.Client(base_url=server.url, verify=trusting) as client:
            for token, status in (("one", 200), ("two", 200), ("three", 401)):
                headers = {
                    "Authorization": f"Bearer {token}",
                    "X-Request-ID": token,
                    "X-Forwarded-For": SECRET,
                }
                answer = client.post("/v1/expand", json={"text": SECRET}, headers=headers)
                assert answer.status_code == status
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log.splitlines()]
    asked = [line for line in lines if line.get("path") == "/v1/expand"]
    assert [(line["status"], line["request_id"]) for line in asked] == [
        (200, "one"),
        (200, "two"),
        (401, "three"),
    ]
    assert {line["client"] for line in asked} == {"127.0.0.1"}
    assert {"time", "level", "message", "method", "ms"} < asked[0].keys()
    assert SECRET not in server.log


def test_a_key_with_a_passphrase_is_refused_instead_of_asking_for_it(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    encrypt = ("openssl", "rsa", "-aes128", "-passout", "pass:x", "-in", certificate[1], "-out", locked)
    subprocess.run(encrypt, check=True, capture_output=True)
    options = ServerOptions(
        ExpanderSettings(), ServiceSettings(), certificate=str(certificate[0]), key=str(locked)
    )
    with pytest.raises(ConfigError, match=r"locked\.key is encrypted\. Give it without a passphrase\."):
        serve(options)


def test_only_a_trusted_proxy_is_believed(folder: Path) -> None:
    with served(folder, "--trusted-proxy", "127.0.0.1", "--allowed-host", "acronyms.example") as server:
        headers = {"X-Forwarded-For": "10.1.2.3", "Host": "acronyms.example"}
        assert httpx.get(f"{server.url}/v1/inventory", headers=headers).status_code == 200
        assert httpx.get(f"{server.url}/v1/inventory").status_code == 421
        for given in (SECRET, f"fe80::1%{SECRET}"):
            httpx.get(f"{server.url}/v1/inventory", headers=headers | {"X-Forwarded-For": given})
        assert server.stop() == 0
    assert '10.1.2.3 "GET /v1/inventory" 200' in server.log
    assert SECRET not in server.log


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert url(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"cannot listen on nowhere\.invalid"):
        listen("nowhere.invalid", 1)


def test_what_is_loaded_is_not_searched_for_garbage() -> None:
    thresholds = gc.get_threshold()
    try:
        freeze_loaded()
        assert gc.get_freeze_count() > 1_000
        assert gc.get_threshold()[0] > thresholds[0]
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
