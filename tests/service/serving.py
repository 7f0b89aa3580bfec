"""The service as its users meet it: an application without a socket, a server in a thread, or a process."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from threading import Thread
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from lmcells import Expander
from lmcells.expansion import Sense, SenseInventory
from lmcells.service import ServiceSettings
from lmcells.service.app import create_app
from lmcells.service.server import listen, server_config
from lmcells.service.server import url as url_of

NOTE = "PLAN: Pt in PT for gait.\n\nLABS: PT 12, warfarin.\n\nPMH: multiple sclerosis (MS), MS."
SECRET = "Zebediah Quackenbush"
"""A patient's name: it must turn up nowhere but in answers."""
PLANTED = SenseInventory.from_senses(
    [Sense("SM", name, (name,)) for name in ("smoking", "sodium", "mother")]
    + [Sense("AL", "alcohol", ("alcohol",))]
)


def as_settings(*, token: str | None = None, **given: Any) -> ServiceSettings:
    """Settings with one token or none."""
    return ServiceSettings(**({"tokens": (token,)} if token else {}), **given)


@contextmanager
def client(expander: Expander, **settings: Any) -> Iterator[TestClient]:
    """The application, running, without a server."""
    app = create_app(expander, as_settings(**settings))
    with TestClient(app, raise_server_exceptions=False) as running:
        yield running


@contextmanager
def in_thread(expander: Expander, *, tls: SSLContext | None = None, **settings: Any) -> Iterator[str]:
    """The application behind a socket, in a thread of this process; -> its address."""
    given = as_settings(**settings)
    server = uvicorn.Server(server_config(create_app(expander, given), given, tls=tls))
    listening = listen("127.0.0.1", 0)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield url_of(listening, scheme="https" if tls else "http")
    finally:
        server.should_exit = True
        thread.join()


@dataclass
class Served:
    """A server process."""

    process: "subprocess.Popen[bytes]"
    url: str
    log_file: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def stop(self, *, timeout: float = 20) -> int:
        """Ask it to end; -> its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


@contextmanager
def served(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, is_shipped: bool = False
) -> Iterator[Served]:
    """`lmcells serve` on a free port, with the folder's model and inventory, or the shipped ones."""
    log_file = folder / f"log-{time.monotonic_ns()}.txt"
    own = ("--model", str(folder / "model"), "--only-inventory", str(folder / "inventory.csv"))
    command = [sys.executable, *"-m lmcells serve --port 0".split(), *(() if is_shipped else own), *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "LMCELLS_TOKEN"}
    settings = inherited | dict(environment or {})
    with log_file.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, env=settings)
    server = Served(process, "", log_file)
    try:
        server.url = _address(server)
        yield server
    finally:
        try:
            server.stop()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(server: Served) -> str:
    pattern = r"listening on (https?://[^\s\"]+)"
    wait_until(lambda: server.process.poll() is not None or re.search(pattern, server.log))
    found = re.search(pattern, server.log)
    assert found, f"the service did not start: {server.log}"
    return found[1]


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
