"""A step of the protocol: what it needs, what decides its outcome, and whether it is done.

A step's *key* is a checksum of its settings, of the files it reads and of the keys of the steps it needs. Its record
holds the key that it was done with: a changed setting changes the keys of exactly what depends on it.
"""

import ctypes
import fnmatch
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from lmcells.errors import ConfigError, InputError, LmcellsError, nearest
from lmcells.evaluation.reproduce.protocol import Digests, MissingSource, Source
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json, write_json

# A step of the protocol: what it needs, what decides its outcome, and whether it is done.
#
# A step's *key* is a checksum of its settings, of the files it reads and of the keys of the steps it needs. Its record
# holds the key that it was done with: a changed setting changes the keys of exactly what depends on it.


DONE, ELSEWHERE, TO_DO, WAITS, CANNOT = "done", "done elsewhere", "to do", "waits", "cannot run"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One piece of work, done whole or not at all."""

    name: str  # such as train/lmc-0
    needs: tuple[str, ...] = ()  # steps that must be done before
    wants: tuple[str, ...] = ()  # steps whose outcome is used where they are done
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)  # by the key that names them
    corpora: tuple[str, ...] = ()  # that are read
    is_there: Callable[[], bool]  # whether what it makes is on this machine
    run: Callable[["Steps"], None] | None = None
    command: Callable[[str], Sequence[str]] | None = None  # or a process of its own, given the step's key
    in_own_process: bool = False  # whether several can run side by side


@dataclass(frozen=True, slots=True)
class State:
    """Where a step stands, and why."""

    name: str
    state: str
    why: str = ""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return self.state in (DONE, ELSEWHERE)


class Steps:
    """All steps in an order in which they can be done."""

    def __init__(self, steps: Iterable[Step], workspace: Workspace) -> None:
        self.by_name: dict[str, Step] = {}
        for step in steps:
            if step.name in self.by_name:
                raise ConfigError(f"two runs would be called {step.name!r}. Rename one of the models.")
            self.by_name[step.name] = step
        self.workspace = workspace
        self._digests = Digests(workspace.digests)
        self._keys: dict[str, str] = {}
        self._states: dict[str, State] = {}
        self._records: dict[str, dict[str, Any] | None] = {}

    def __iter__(self) -> Iterator[Step]:
        return iter(self.by_name.values())

    @cached_property
    def _dependents(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self.by_name}
        for step in self:
            for need in step.needs:
                found[need].append(step.name)
        return found

    def matching(self, patterns: Sequence[str]) -> list[Step]:
        """The steps that a pattern names: `train` is all of `train/...`; none at all is every step."""
        if not patterns:
            return list(self)
        chosen: set[str] = set()
        for pattern in patterns:
            wanted = pattern.rstrip("/")
            found = [
                name
                for name in self.by_name
                if fnmatch.fnmatchcase(name, wanted) or name.startswith(f"{wanted}/")
            ]
            if not found:
                groups = dict.fromkeys(name.partition("/")[0] for name in self.by_name)
                suggestion = nearest(wanted, (*groups, *self.by_name))
                raise InputError(
                    f"--only: {pattern!r} matches no step; there are: {', '.join(groups)}.{suggestion} "
                    "List all with --steps."
                )
            chosen.update(found)
        return [step for step in self if step.name in chosen]

    def key(self, name: str) -> str:
        """The key of a step as things stand; MissingSource where a file was never seen."""
        if name not in self._keys:
            inputs = json.dumps(self.inputs(name), sort_keys=True, ensure_ascii=False)
            self._keys[name] = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._keys[name]

    def inputs(self, name: str) -> dict[str, Any]:
        """Everything that decides the outcome of a step, as plain data."""
        step = self.by_name[name]
        return {
            **step.settings,
            **{f"source {key}": self._digests.of(source) for key, source in step.sources.items()},
            **{f"step {need}": self.key(need) for need in step.needs},
            **{f"step {want}": self.key(want) for want in step.wants if self.state(want).is_done},
        }

    def state(self, name: str) -> State:
        """Where a step stands; it is looked at again only when a step was finished."""
        if name not in self._states:
            self._states[name] = self._look_at(name)
        return self._states[name]

    def _look_at(self, name: str) -> State:
        step = self.by_name[name]
        try:
            key = self.key(name)
        except MissingSource as error:
            return State(name, CANNOT, str(error))
        record = self._record(name)
        if record is not None and record["key"] == key and step.is_there():
            return State(name, DONE)
        if self._is_settled(name):
            return State(name, ELSEWHERE, "its files are not here, and nothing needs them")
        waiting = [need for need in step.needs if self.state(need).state != DONE]
        if waiting:
            return State(name, WAITS, f"for {_some(waiting)}")
        if step.wants and not any(self.state(want).is_done for want in step.wants):
            return State(name, WAITS, f"for any of {_some(step.wants)}")
        return State(name, TO_DO, self._why(name, record, step))

    def finish(self, name: str, *, key: str, seconds: float) -> None:
        """Write down that a step is done."""
        path = self.workspace.record(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"step": name, "key": key, "seconds": round(seconds, 3), "finished": _now()}
        write_json(path, {**record, "inputs": self.inputs(name)}, indent=1)
        self._states, self._records = {}, {}
        self._keys = {name: key for name, key in self._keys.items() if not self.by_name[name].wants}

    def _is_settled(self, name: str) -> bool:
        """Whether a step was done as it stands, and all that needs it is done if its own files are not here."""
        record = self._record(name)
        if record is None or record["key"] != self.key(name):
            return False
        dependents = self._dependents[name]
        return self.by_name[name].is_there() or (bool(dependents) and all(map(self._is_settled, dependents)))

    def _record(self, name: str) -> dict[str, Any] | None:
        if name not in self._records:
            try:
                found = read_json(self.workspace.record(name))
            except (OSError, ValueError):
                found = None
            self._records[name] = found if isinstance(found, dict) and "key" in found else None
        return self._records[name]

    def _why(self, name: str, record: dict[str, Any] | None, step: Step) -> str:
        if record is None:
            return ""
        before, now = _flat(record.get("inputs", {})), _flat(self.inputs(name))
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        if changed:
            return f"changed: {_some(changed)}"
        return "" if step.is_there() else "its files are not here"


def plain(source: Source | None) -> str | None:
    """A source in a step's settings: as written; what it holds is in the step's sources."""
    return None if source is None else source.written


def _flat(inputs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in inputs.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _some(names: Sequence[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def any_exists(*paths: Path) -> Callable[[], bool]:
    """Whether one of the paths is there."""
    return lambda: any(path.exists() for path in paths)


def all_exist(*paths: Path) -> Callable[[], bool]:
    """Whether all of the paths are there."""
    return lambda: all(path.exists() for path in paths)


# Steps as processes of their own, which end when we do.


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


# Doing the steps: in order, some side by side, until all are done, time is up, or somebody asks to stop.


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
