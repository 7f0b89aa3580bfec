"""Doing the steps: in order, some side by side, until all are done, time is up, or somebody asks to stop."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lmcells.errors import InputError, LmcellsError
from lmcells.evaluation.reproduce.steps import TO_DO, Step, Steps

_COMMAND = re.compile(r"^lmcells \w+: ")
_POLL_SECONDS = 0.1
_LOCK_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1
_TAIL = 4096

Tell = Callable[[str], None]


def execute(
    steps: Steps,
    chosen: Sequence[Step],
    *,
    jobs: int = 1,
    minutes: float | None = None,
    worker: Callable[[str], Sequence[str]] | None = None,
    say: Tell = lambda _: None,
    show_progress: Tell = lambda _: None,
) -> bool:
    """Do what is not done of the chosen steps; return False where `minutes` were too few to begin them all.

    A step that fails stops only what needs it. `jobs` is how many run side by side; `worker` turns a step's name into
    a command that does that step alone; `say` is told of every step that is done or cannot be.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with _locked(steps.workspace.folder) as lock, _termination_interrupts():
        execution = _Execution(steps, list(chosen), jobs, deadline, worker, say, show_progress, lock)
        try:
            while True:
                execution.collect()
                if not execution.begin_next():
                    if not execution.running:
                        break
                    show_progress(execution.now())
                    time.sleep(_POLL_SECONDS)
        except BaseException:
            execution.stop()
            raise
    if not execution.is_out_of_time:
        for state in (steps.state(step.name) for step in execution.left):
            if not state.is_done:
                say(f"{state.name}: {state.state}: {state.why}")
    return not execution.is_out_of_time


@dataclass(slots=True)
class _Child:
    """A step that runs in a process of its own."""

    name: str
    key: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    def last_line(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


@dataclass(slots=True)
class _Execution:
    steps: Steps
    left: list[Step]
    jobs: int
    deadline: float | None
    worker: Callable[[str], Sequence[str]] | None
    say: Tell
    show_progress: Tell
    lock: int | None
    running: list[_Child] = field(default_factory=list)
    is_out_of_time: bool = False

    def begin_next(self) -> bool:
        """Begin or do one step that can be done; False where there is none, or no room for it."""
        for step in self.left:
            # A report is written last, of all that could be done.
            if self.steps.state(step.name).state != TO_DO or (step.wants and self.running):
                continue
            if self.deadline is not None and time.monotonic() > self.deadline:
                self.is_out_of_time = True
                return False
            if len(self.running) >= self.jobs:
                return False
            self.left.remove(step)
            self._begin(step)
            return True
        return False

    def _begin(self, step: Step) -> None:
        name, key, started = step.name, self.steps.key(step.name), time.monotonic()
        self.show_progress(name)
        try:
            step.prepare(key)
            command = step.command
            if not command and step.runs_beside_others and self.worker is not None and self.jobs > 1:
                command = self.worker(name)
            if command:
                self.running.append(self._start(name, command, key))
                return
            step.run(self.steps.is_done)
        except LmcellsError as error:
            self.say(f"{name}: {error}")
        except OSError as error:
            what = error.filename or "a file"
            self.say(f"{name}: {what} cannot be read or written: {error.strerror or error}.")
        else:
            self._succeed(name, key, started)

    def _start(self, name: str, command: Sequence[str], key: str) -> _Child:
        """Run a command; all it prints goes to its log.

        The child holds our lock as well, so that what a killed parent leaves behind is not run twice; on Linux it is
        asked to end when we are gone.
        """
        log = self.steps.workspace.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        if self.jobs > 1:
            environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self.jobs)))
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=() if self.lock is None else (self.lock,),
                preexec_fn=_ends_with_us(),  # noqa: PLW1509 - we start no threads
            )
        return _Child(name, key, process, log, time.monotonic())

    def collect(self) -> None:
        """Take note of the children that have ended."""
        for child in [child for child in self.running if child.process.poll() is not None]:
            self.running.remove(child)
            if child.process.returncode == 0:
                self._succeed(child.name, child.key, child.started)
            else:
                why = _COMMAND.sub("", child.last_line()) or f"it ended with code {child.process.returncode}."
                self.say(f"{child.name}: {why} (log: {child.log})")

    def _succeed(self, name: str, key: str, started: float) -> None:
        seconds = time.monotonic() - started
        self.steps.finish(name, key=key, seconds=seconds)
        self.say(f"{name}: done in {seconds:,.1f} s")

    def now(self) -> str:
        """Return what the first child said last."""
        first, *others = self.running
        more = f" (and {len(others)} more)" if others else ""
        return f"{first.name}{more}: {first.last_line()}"

    def stop(self) -> None:
        """Ask all children to write a checkpoint and end, and wait until they have."""
        for child in self.running:
            child.process.send_signal(signal.SIGTERM)
        for child in self.running:
            child.process.wait()


def _ends_with_us() -> Callable[[], None] | None:
    """Ask the kernel to send SIGTERM to the child when this process dies: training then writes a checkpoint."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Make SIGTERM stop us as Ctrl-C does, with time for our children to write their checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _locked(folder: Path) -> Iterator[int | None]:
    """Be the only one at work in a folder; give what a killed run left behind time to end."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody is kept out
        yield None
        return
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError(
                        f"{folder} is being worked on by another `lmcells reproduce`, or by a training run that it "
                        "left behind. Wait for it, or end it."
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield lock
    finally:
        os.close(lock)
