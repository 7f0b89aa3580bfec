"""The service as a process: signals, several clients, several workers, clients that leave."""

import gc
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from lmcells.errors import InputError
from lmcells.service.server import freeze_loaded, listen, url
from service.serving import NOTE, SECRET, Served, served, wait_until

LARGE = {"notes": [{"text": f"{NOTE} {SECRET} " * 40}] * 30}  # takes a while


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder, "--max-concurrency", "4", "--max-body", "2") as running:
        yield running


def metrics(server: Served) -> str:
    return httpx.get(f"{server.url}/metrics").text


def test_it_listens_on_this_machine_only(server: Served) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert "no token" not in server.log
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"


def test_clients_at_one_time_are_all_answered(server: Served) -> None:
    def ask(number: int) -> list[int]:
        notes = [{"text": "PT " * (number + 1)}, {"text": "no short form"}]
        answer = httpx.post(f"{server.url}/expand", json={"notes": notes}, timeout=30)
        return [len(note["expansions"]) for note in answer.json()["notes"]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(20))) == [[number + 1, 0] for number in range(20)]


def test_too_many_at_one_time_are_told_when_to_come_back(server: Served) -> None:
    def ask(_: int) -> tuple[int, str | None]:
        answer = httpx.post(f"{server.url}/expand", json=LARGE, timeout=60)
        return answer.status_code, answer.headers.get("Retry-After")

    with ThreadPoolExecutor(12) as pool:
        answers = set(pool.map(ask, range(12)))
    assert answers == {(200, None), (429, "1")}


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Served) -> None:
    answer = httpx.post(f"{server.url}/expand", content=b"x" * 3_000_000, timeout=30)
    assert answer.status_code == 413


def test_work_for_a_client_that_left_is_dropped(server: Served) -> None:
    body = json.dumps(LARGE).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST /expand HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
            + body
        )
        wait_until(lambda: "lmcells_requests_in_progress 1.0" in metrics(server))
    wait_until(lambda: "lmcells_requests_given_up_total 1.0" in metrics(server))
    wait_until(lambda: "lmcells_requests_in_progress 0.0" in metrics(server))


def test_a_signal_ends_it_after_what_was_taken_is_answered(folder: Path) -> None:
    with served(folder) as server:
        answers: list[httpx.Response] = []
        ask = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{server.url}/expand", json=LARGE, timeout=60))
        )
        ask.start()
        wait_until(lambda: "lmcells_requests_in_progress 1.0" in metrics(server))
        assert server.stop() == 0
        ask.join()
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
            answer = httpx.post(f"{server.url}/expand", json={"text": NOTE}, headers=headers, timeout=20)
            assert answer.status_code == 200
        counted = httpx.get(f"{server.url}/metrics", headers=headers).text
        assert "lmcells_notes_total 12.0" in counted
        assert server.stop() == 0


def is_up(server: Served) -> bool:
    try:
        return httpx.get(f"{server.url}/health", timeout=20).status_code == 200
    except httpx.TransportError:
        return False


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
