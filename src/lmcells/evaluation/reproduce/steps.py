"""A step of the protocol: what it needs, what decides its outcome, and whether it is done.

A step's *key* is a checksum of its settings, of the files it reads and of the keys of the steps it needs. Its record
holds the key that it was done with: a changed setting changes the keys of exactly what depends on it.
"""

import fnmatch
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, InputError, nearest
from lmcells.evaluation.reproduce.sources import Digests, MissingSource, Source
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json, write_json

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
