"""Doing the steps: in order, some side by side, until all are done, time is up, or somebody asks to stop."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lmcells.errors import InputError, LmcellsError
from lmcells.evaluation.reproduce.children import Child, start
from lmcells.evaluation.reproduce.steps import CANNOT, DONE, TO_DO, Step, Steps

_COMMAND = re.compile(r"^lmcells \w+: ")
_POLL_SECONDS = 0.1
_LOCK_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """Tells whoever looks on how it goes; every method may be replaced."""

    on_start: Callable[[str], None] = lambda _: None
    on_done: Callable[[str, float], None] = lambda _name, _seconds: None
    on_failure: Callable[[str, str], None] = lambda _name, _why: None
    on_progress: Callable[[str], None] = lambda _: None


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    done: list[str] = field(default_factory=list)  # now; those done before are not here
    failed: dict[str, str] = field(default_factory=dict)  # step -> one line
    waiting: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


def execute(
    steps: Steps,
    chosen: Sequence[Step],
    *,
    jobs: int = 1,
    minutes: float | None = None,
    worker: Callable[[str], Sequence[str]] | None = None,
    watcher: Watcher = Watcher(),  # noqa: B008 - immutable
) -> Outcome:
    """Do what is not done of the chosen steps. One that fails stops only what needs it.

    `jobs` is how many run side by side; `minutes` the time after which no step is begun; `worker` turns a step's name
    into a command that does that step alone.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with locked(steps.workspace.folder) as lock, _termination_interrupts():
        return _Execution(steps, list(chosen), jobs, deadline, worker, watcher, lock).go()


@dataclass(slots=True)
class _Execution:
    steps: Steps
    left: list[Step]
    jobs: int
    deadline: float | None
    worker: Callable[[str], Sequence[str]] | None
    watcher: Watcher
    lock: int | None
    running: list[Child] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def go(self) -> Outcome:
        try:
            while self.left or self.running:
                self._collect()
                if not self._begin_next():
                    if not self.running:
                        break
                    self.watcher.on_progress(self._now())
                    time.sleep(_POLL_SECONDS)
        except BaseException:
            self._stop()
            raise
        for step in self.left:
            state = self.steps.state(step.name)
            if not state.is_done and not self.outcome.out_of_time:
                kind = self.outcome.failed if state.state == CANNOT else self.outcome.waiting
                kind[step.name] = state.why
                self.watcher.on_failure(
                    step.name, f"{state.state}: {state.why}" if state.why else state.state
                )
        return self.outcome

    def _begin_next(self) -> bool:
        """Begin or do one step that can be done; False where there is none, or no place for it."""
        for step in list(self.left):
            state = self.steps.state(step.name)
            if state.is_done:
                self.left.remove(step)
                continue
            if state.state != TO_DO or self._will_come(step):
                continue
            if self.deadline is not None and time.monotonic() > self.deadline:
                self.outcome.out_of_time = True
                return False
            if len(self.running) >= self.jobs:
                return False
            self.left.remove(step)
            self._begin(step)
            return True
        return False

    def _will_come(self, step: Step) -> bool:
        """Whether something that a step wants is still to be done: a report is written last."""
        pending = {other.name for other in self.left} | {child.step for child in self.running}
        return any(want in pending and self._can_come(want) for want in step.wants)

    def _can_come(self, name: str) -> bool:
        """Whether a step that is left can still be done in this execution."""
        if any(child.step == name for child in self.running):
            return True
        if name not in {step.name for step in self.left} or self.steps.state(name).state == CANNOT:
            return False
        needs = self.steps.by_name[name].needs
        return all(self.steps.state(need).state == DONE or self._can_come(need) for need in needs)

    def _begin(self, step: Step) -> None:
        name, key, started = step.name, self.steps.key(step.name), time.monotonic()
        self.watcher.on_start(name)
        try:
            for which in step.corpora:
                self.steps.workspace.open_corpus(which)  # unpacked once, before several processes want it
            command = step.command(key) if step.command is not None else None
            if command is None and step.in_own_process and self.worker is not None and self.jobs > 1:
                command = self.worker(name)
            if command is not None:
                log = self.steps.workspace.log(name)
                self.running.append(start(name, command, key=key, log=log, lock=self.lock, share=self.jobs))
                return
            assert step.run is not None
            step.run(self.steps)
        except LmcellsError as error:
            self._fail(name, str(error))
            return
        except OSError as error:
            self._fail(
                name, f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}."
            )
            return
        self._succeed(name, key, time.monotonic() - started)

    def _collect(self) -> None:
        for child in [child for child in self.running if child.process.poll() is not None]:
            self.running.remove(child)
            if child.process.returncode == 0:
                self._succeed(child.step, child.key, child.seconds)
            else:
                said = _COMMAND.sub("", child.last_line())
                why = said or f"it ended with code {child.process.returncode}."
                self._fail(child.step, f"{why} (log: {child.log})")

    def _succeed(self, name: str, key: str, seconds: float) -> None:
        self.steps.finish(name, key=key, seconds=seconds)
        self.outcome.done.append(name)
        self.watcher.on_done(name, seconds)

    def _fail(self, name: str, why: str) -> None:
        self.outcome.failed[name] = why
        self.watcher.on_failure(name, why)

    def _now(self) -> str:
        first = self.running[0]
        more = f" (and {len(self.running) - 1} more)" if len(self.running) > 1 else ""
        return f"{first.step}{more}: {first.last_line()}"

    def _stop(self) -> None:
        """Ask all children to write a checkpoint and end, and wait until they have."""
        for child in self.running:
            child.process.send_signal(signal.SIGTERM)
        for child in self.running:
            child.process.wait()


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM stops us as Ctrl-C does: with time for our children to write their checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Be the only one at work in a folder; what was left behind by a killed one is given time to end."""
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
