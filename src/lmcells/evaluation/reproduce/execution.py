"""Running steps: in order, some in parallel, until all are done, time is up, or a signal stops them."""

import ctypes
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lmcells.corpus.packing import unpack_corpus
from lmcells.errors import LmcellsError
from lmcells.evaluation.reproduce.steps import CHANGED, TO_DO, Step, Steps
from lmcells.files import locked

_COMMAND = re.compile(r"^lmcells \w+: ")
_POLL_SECONDS = 0.1
_LOCK_SECONDS = 20.0  # for the children of a killed run to end
_OTHERS = "another `lmcells reproduce`, or by a training run that it left behind"
_PR_SET_PDEATHSIG = 1
_TAIL = 4096

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    def last_line(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def execute(
    steps: Steps,
    chosen: Sequence[Step],
    *,
    jobs: int = 1,
    minutes: float | None = None,
    say: Tell = lambda _: None,
    show_progress: Tell = lambda _: None,
) -> bool:
    """Run the chosen steps that are not done; return False if `minutes` ran out before all had begun.

    A step that fails stops only the steps that need it. `jobs` run in parallel; `say` gets a line about every step
    that is done or cannot be done.
    """
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    left, has_time, logs = list(chosen), True, steps.workspace.folder / "logs"

    def succeed(name: str, started: float, *, told: str | None = None) -> None:
        steps.finish(name, seconds=(seconds := time.monotonic() - started))
        say(f"{name}: done in {seconds:,.1f} s" + (f": {told}" if told else ""))

    def begin(step: Step) -> None:
        started = time.monotonic()
        show_progress(step.name)
        try:
            for path in (path for need in step.needs for path in steps.by_name[need].outputs):
                if not path.exists():  # only its packed file is here
                    unpack_corpus(path.with_name(f"{path.name}.packed"), path)
            if step.resumes and (why := steps.state(step.name)[1]).startswith(CHANGED):
                say(f"{step.name}: begins again, {why}")
            steps.begin(step, beside=[child.name for child in running])
            if step.run is None or (step.command and jobs > 1):
                running.append(_start(step, logs / f"{step.name}.log", jobs=jobs, lock=lock))
                return
            told = step.run(steps.is_done)
        except LmcellsError as error:
            say(f"{step.name}: {error}")
        except OSError as error:
            what = error.filename or "a file"
            say(f"{step.name}: {what} cannot be read or written: {error.strerror or error}.")
        else:
            succeed(step.name, started, told=told)

    def collect() -> None:
        for child in [child for child in running if child.process.poll() is not None]:
            running.remove(child)
            if child.process.returncode == 0:
                succeed(child.name, child.started)
            else:
                why = _COMMAND.sub("", child.last_line()) or f"it ended with code {child.process.returncode}."
                say(f"{child.name}: {why} (log: {child.log})")

    with (
        locked(steps.workspace.folder, by=_OTHERS, seconds=_LOCK_SECONDS) as lock,
        _children() as running,
    ):
        while True:
            collect()
            # A report is written last, of all that could be done.
            free = (step for step in left if not (step.wants and running))
            step = next((step for step in free if steps.state(step.name)[0] == TO_DO), None)
            has_time = step is None or time.monotonic() <= deadline
            if step is not None and has_time and len(running) < jobs:
                left.remove(step)
                begin(step)
            elif running:
                more = f" (and {len(running) - 1} more)" if len(running) > 1 else ""
                show_progress(f"{running[0].name}{more}: {running[0].last_line()}")
                time.sleep(_POLL_SECONDS)
            else:
                break
    for step in left if has_time else ():
        if not steps.is_done(step.name):
            say(f"{step.name}: {': '.join(steps.state(step.name))}")
    return has_time


def _start(step: Step, log: Path, *, jobs: int, lock: int | None) -> _Child:
    """Run the command of a step; its output goes to its log.

    The child holds our lock too, so that a step that a killed parent left running is not run twice; on Linux the
    kernel sends it SIGTERM when we die: training then writes a checkpoint.
    """
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if jobs > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    with log.open("wb") as file:
        process = subprocess.Popen(
            step.command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=() if lock is None else (lock,),
            # We start no threads.
            preexec_fn=(lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)) if libc else None,  # noqa: PLW1509
        )
    return _Child(step.name, process, log, time.monotonic())


@contextmanager
def _children() -> Iterator[list[_Child]]:
    """Make SIGTERM stop us as Ctrl-C does; then, or on any exception, let all children write a checkpoint and end."""
    running: list[_Child] = []
    may_handle = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if may_handle else None
    try:
        yield running
    except BaseException:
        for child in running:
            child.process.send_signal(signal.SIGTERM)
        for child in running:
            child.process.wait()
        raise
    finally:
        if may_handle:
            signal.signal(signal.SIGTERM, before)
