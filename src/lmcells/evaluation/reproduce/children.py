"""Steps as processes of their own, which end when we do."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

_PR_SET_PDEATHSIG = 1
_TAIL = 4096


@dataclass(slots=True)
class Child:
    """A running step."""

    step: str
    key: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return monotonic() - self.started

    def last_line(self) -> str:
        """What it said last."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def start(step: str, command: Sequence[str], *, key: str, log: Path, lock: int | None, share: int) -> Child:
    """Run a command; all it says goes to its log. `share` is the number of processes that share the cores.

    The child holds our lock as well, so that what a killed parent leaves behind is not run twice; on Linux it is asked
    to end when we are gone.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if share > 1 and "OMP_NUM_THREADS" not in environment:
        environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // share))
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=() if lock is None else (lock,),
            preexec_fn=_ends_with_us(),  # noqa: PLW1509 - we start no threads
        )
    return Child(step, key, process, log, monotonic())


def _ends_with_us() -> Callable[[], None] | None:
    """Ask the kernel to send SIGTERM to the child when this process dies: training then writes a checkpoint."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
