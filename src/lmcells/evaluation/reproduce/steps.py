"""A plain list of steps that can be resumed: what each needs, what decides its outcome, and whether it is done.

A step's *key* is a checksum of its settings, of the files it reads and of the keys of the steps it needs. Its record
holds the key that it was done with, so a changed setting changes the keys of exactly what depends on it.
"""

import fnmatch
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, InputError, nearest
from lmcells.evaluation.reproduce.sources import Digests, MissingSource, Source
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json, write_json

DONE, ELSEWHERE, TO_DO, WAITS, CANNOT = "done", "done elsewhere", "to do", "waits", "cannot run"
IsDone = Callable[[str], bool]  # whether the step of a name is done


@dataclass(frozen=True, kw_only=True)
class Step:
    """One piece of work, done whole or not at all, by a function or by a command in a process of its own."""

    name: str  # such as train/lmc-0
    needs: tuple[str, ...] = ()  # steps that must be done before
    wants: tuple[str, ...] = ()  # steps whose outcome is used where they are done
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)  # files it reads, by the key that names them
    outputs: tuple[Path, ...]  # NAME.packed counts for the folder NAME
    prepare: Callable[[str], object] = lambda _: None  # given the key, before the step begins
    run: Callable[[IsDone], None] = lambda _: None
    command: Sequence[str] = ()  # instead of `run`
    runs_beside_others: bool = False  # whether `run` may be left to a process of its own

    def is_there(self) -> bool:
        """Whether what it makes is on this machine."""
        return all(path.exists() or path.with_name(f"{path.name}.packed").exists() for path in self.outputs)


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
    """All steps, in an order in which they can be done."""

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

    def __iter__(self) -> Iterator[Step]:
        return iter(self.by_name.values())

    def matching(self, patterns: Sequence[str]) -> list[Step]:
        """Return the steps that a pattern names: `train` is all of `train/...`; no pattern is every step."""
        chosen = set() if patterns else set(self.by_name)
        for pattern in patterns:
            wanted = pattern.rstrip("/")
            found = {
                name
                for name in self.by_name
                if fnmatch.fnmatchcase(name, wanted) or name.startswith(f"{wanted}/")
            }
            if not found:
                groups = dict.fromkeys(name.partition("/")[0] for name in self.by_name)
                raise InputError(
                    f"--only: {pattern!r} matches no step; there are: {', '.join(groups)}."
                    f"{nearest(wanted, (*groups, *self.by_name))} List all with --steps."
                )
            chosen |= found
        return [step for step in self if step.name in chosen]

    def key(self, name: str) -> str:
        """Return the key of a step as things stand; MissingSource where a file was never seen."""
        if name not in self._keys:
            inputs = json.dumps(self._inputs(name), sort_keys=True, ensure_ascii=False)
            self._keys[name] = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._keys[name]

    def _inputs(self, name: str) -> dict[str, Any]:
        """Everything that decides the outcome of a step, as plain data."""
        step = self.by_name[name]
        return {
            **step.settings,
            **{f"source {key}": self._digests.of(source) for key, source in step.sources.items()},
            **{f"step {need}": self.key(need) for need in step.needs},
            **{f"step {want}": self.key(want) for want in step.wants if self.is_done(want)},
        }

    def is_done(self, name: str) -> bool:
        """Whether there is nothing to do for a step."""
        return self.state(name).is_done

    def state(self, name: str) -> State:
        """Return where a step stands; it is looked at again only after a step was finished."""
        if name not in self._states:
            self._states[name] = self._look_at(self.by_name[name])
        return self._states[name]

    def _look_at(self, step: Step) -> State:
        name = step.name
        waits = ""
        if waiting := [need for need in step.needs if self.state(need).state != DONE]:
            waits = f"for {_some(waiting)}"
        elif step.wants and not any(map(self.is_done, step.wants)):
            waits = f"for any of {_some(step.wants)}"
        try:
            for source in step.sources.values():
                self._digests.of(source)
        except MissingSource as error:
            return State(name, CANNOT, str(error))
        try:
            key = self.key(name)
        except MissingSource:  # of a step that it needs
            return State(name, WAITS, waits)
        record = self._record(name)
        if record.get("key") == key and step.is_there():
            return State(name, DONE)
        if self._is_settled(step):
            return State(name, ELSEWHERE, "its files are not here, and nothing needs them")
        if waits:
            return State(name, WAITS, waits)
        return State(name, TO_DO, self._why_again(name, record) if record else "")

    def _why_again(self, name: str, record: dict[str, Any]) -> str:
        before, now = _flat(record.get("inputs", {})), _flat(self._inputs(name))
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        return f"changed: {_some(changed)}" if changed else "its files are not here"

    def _is_settled(self, step: Step) -> bool:
        """Whether a step was done as it stands, and its files are here or all that needs them is settled."""
        if self._record(step.name).get("key") != self.key(step.name):
            return False
        dependents = [other for other in self if step.name in other.needs]
        return step.is_there() or (bool(dependents) and all(map(self._is_settled, dependents)))

    def _record(self, name: str) -> dict[str, Any]:
        try:
            found = read_json(self.workspace.record(name))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def finish(self, name: str, *, key: str, seconds: float) -> None:
        """Write down that a step is done."""
        path = self.workspace.record(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = {"step": name, "key": key, "seconds": round(seconds, 3), "finished": finished}
        write_json(path, {**record, "inputs": self._inputs(name)}, indent=1)
        self._states, self._keys = {}, {}


def _flat(inputs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in inputs.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _some(names: Sequence[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
