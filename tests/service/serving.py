"""The service as its users meet it: a process with a socket, or an application without one."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from lmcells import Expander
from lmcells.service import ServiceSettings
from lmcells.service.app import create_app
from lmcells.service.messages import ManyNotes, NoteMessage
from lmcells.service.worker import Job

NOTE = "PLAN: Pt in PT for gait.\n\nLABS: PT 12, warfarin.\n\nPMH: multiple sclerosis (MS), MS."
SECRET = "Zebediah Quackenbush"
"""A patient's name: it must turn up nowhere but in answers."""


@contextmanager
def client(expander: Expander, **settings: Any) -> Iterator[TestClient]:
    """The application, running, without a server."""
    app = create_app(expander, ServiceSettings(**settings))
    with TestClient(app, raise_server_exceptions=False) as running:
        yield running


def job(n_notes: int, *, length: int = 1) -> Job:
    """A request of so many notes, of so many characters each, for whose answer nobody waits."""
    return Job(ManyNotes(notes=tuple(NoteMessage(text="x" * length) for _ in range(n_notes))), lambda _: None)


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
    own = ("--model", str(folder / "model"), "--inventory", str(folder / "inventory.csv"))
    command: Sequence[str] = (
        *(sys.executable, "-m", "lmcells", "serve", "--port", "0"),
        *(() if is_shipped else own),
        *arguments,
    )
    settings = {"OMP_NUM_THREADS": "1", "LMCELLS_TOKEN": "", **(environment or {})}
    with log_file.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, env=os.environ | settings)
    try:
        yield Served(process, _address(process, log_file), log_file)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: "subprocess.Popen[bytes]", log_file: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"listening on (http://\S+)", log_file.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the service did not start: {log_file.read_text()}")
