"""A list of resumable steps: what each needs, what its result depends on, and whether it is done.

A step's *key* is a checksum of its settings, of the files it reads and of the keys of the steps it needs. Its record
has the key that it was done with, so a changed setting changes the keys of exactly the steps that depend on it.
"""

import fnmatch
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, InputError, nearest
from lmcells.evaluation.reproduce.protocol import ADDED, TRAINED, MissingSource, ModelPlan, Protocol, Source
from lmcells.files import read_saved, sha256, write_json

MAIN, LEAKY = "main", "leaky"
INVENTORY, ACCOUNT, NOTES = ".inventory.json", ".account.json", ".notes.txt"  # of a dataset
DONE, ELSEWHERE, TO_DO, WAITS, CANNOT = "done", "done elsewhere", "to do", "waits", "cannot run"
CHANGED = "changed: "  # and what, where a step was done or begun before
IsDone = Callable[[str], bool]  # whether the step of a name is done


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder of a reproduction, and the paths in it.

    corpus/, corpus.packed           the notes; corpus-leaky with the test notes as well
    datasets/NAME.jsonl              NAME.inventory.json, and NAME.account.json: how it was filtered
    train/MODEL-SEED                 model folders; MODEL-SEED.training beside them, with best/DATASET in it
    evaluate/DATASET/MODEL-SEED.*    predictions, and further results of the run
    steps/                           a record of every step that is begun or done; checksums of what the protocol reads
    logs/                            what the processes of steps printed
    selection.json                   which setting was chosen
    report/DATASET/report.html       and results.md, index.html
    """

    folder: Path

    def corpus(self, which: str) -> Path:
        return self.folder / ("corpus" if which == MAIN else f"corpus-{which}")

    def dataset(self, name: str, suffix: str = ".jsonl") -> Path:
        """Return the path of a dataset, or of its INVENTORY, ACCOUNT, or the NOTES it keeps out of pre-training."""
        return self.folder / "datasets" / f"{name}{suffix}"

    def model(self, run: str) -> Path:
        return self.folder / "train" / run

    def evaluation(self, dataset: str, run: str, suffix: str = "") -> Path:
        """Return one of an evaluation's files; without a suffix, the prefix of their names."""
        return self.folder / "evaluate" / dataset / f"{run}{suffix}"

    def record(self, step: str) -> Path:
        return self.folder / "steps" / f"{step}.json"

    @property
    def selection(self) -> Path:
        return self.folder / "selection.json"


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One model with one random seed, on the corpus that it is trained on."""

    model: ModelPlan
    seed: int | None  # None where nothing is random
    corpus: str = MAIN

    @property
    def name(self) -> str:
        return self.model.name if self.seed is None else f"{self.model.name}-{self.seed}"

    @property
    def is_trained(self) -> bool:
        return self.model.kind in TRAINED


def runs_of(model: ModelPlan, *, corpus: str = MAIN) -> list[Run]:
    """Return one run per seed; a single run if nothing is random."""
    return [Run(model, seed, corpus) for seed in model.seeds or (None,)]


def leaky_runs(protocol: Protocol) -> list[Run]:
    """Return the runs of the leakage ablation, whose training includes the test notes."""
    if (plan := protocol.leakage) is None:
        return []
    model = protocol.model(plan.model)
    return runs_of(replace(model, name=f"{model.name}{ADDED}{LEAKY}", seeds=plan.seeds), corpus=LEAKY)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One piece of work, done completely or not at all."""

    name: str  # such as train/lmc-0
    needs: tuple[str, ...] = ()  # steps that must be done before
    wants: tuple[str, ...] = ()  # steps whose outcome is used where they are done
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)  # files it reads, by the key that names them
    outputs: tuple[Path, ...]  # NAME.packed counts for the folder NAME
    resumes: tuple[Path, ...] = ()  # what an interrupted run continues from; removed if the key differs
    run: Callable[[IsDone], str | None] | None = None  # -> what to tell about the outcome
    command: Sequence[str] = ()  # does it in a separate process: without `run`, or beside other steps

    def is_there(self) -> bool:
        """Whether its output is on this machine."""
        return all(path.exists() or path.with_name(f"{path.name}.packed").exists() for path in self.outputs)


class Digests:
    """Checksums of sources, computed once and stored, for machines without the files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = read_saved(path)

    def of(self, source: Source) -> str:
        """Return the checksum of a file, or of all files of a folder with their names."""
        before = self._known.get(source.written)
        try:
            path = source.path()
        except MissingSource:
            if before is None:
                raise
            return str(before["sha256"])
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        stamps = [[file.stat().st_size, file.stat().st_mtime_ns] for file in files]
        if before is None or before["stamps"] != stamps:
            listing = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in files)
            digest = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
            self._known[source.written] = {"sha256": digest, "stamps": stamps}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._known, indent=1)
        return str(self._known[source.written]["sha256"])


class Steps:
    """All steps, in a valid order."""

    def __init__(self, steps: Iterable[Step], workspace: Workspace) -> None:
        self.by_name: dict[str, Step] = {}
        for step in steps:
            if step.name in self.by_name:
                raise ConfigError(f"two runs would be called {step.name!r}. Rename one of the models.")
            self.by_name[step.name] = step
        self.workspace = workspace
        self._digests = Digests(workspace.folder / "steps" / "sources.json")
        self._keys: dict[str, str] = {}
        self._states: dict[str, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[Step]:
        return iter(self.by_name.values())

    def matching(self, patterns: Sequence[str]) -> list[Step]:
        """Return the steps that match a pattern: `train` is all of `train/...`; no pattern is every step."""
        chosen = set() if patterns else set(self.by_name)
        for pattern in patterns:
            wanted = pattern.rstrip("/")
            both = (wanted, f"{wanted}/*")
            found = {name for name in self.by_name if any(fnmatch.fnmatchcase(name, each) for each in both)}
            if not found:
                groups = dict.fromkeys(name.partition("/")[0] for name in self.by_name)
                raise InputError(
                    f"--only: {pattern!r} matches no step; there are: {', '.join(groups)}."
                    f"{nearest(wanted, (*groups, *self.by_name))} List all with --steps."
                )
            chosen |= found
        return [step for step in self if step.name in chosen]

    def key(self, name: str) -> str:
        """Return the current key of a step; MissingSource if a file was never seen."""
        if name not in self._keys:
            inputs = json.dumps(self._inputs(name), sort_keys=True, ensure_ascii=False)
            self._keys[name] = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._keys[name]

    def _inputs(self, name: str) -> dict[str, Any]:
        """Everything that the result of a step depends on, as plain data."""
        step = self.by_name[name]
        steps = (*step.needs, *filter(self.is_done, step.wants))
        return {
            **step.settings,
            **{f"source {key}": self._digests.of(source) for key, source in step.sources.items()},
            **{f"step {each}": self.key(each) for each in steps},
        }

    def is_done(self, name: str) -> bool:
        """Whether a step has nothing left to do."""
        return self.state(name)[0] in (DONE, ELSEWHERE)

    def state(self, name: str) -> tuple[str, str]:
        """Return the state of a step, and why; kept until a step is finished."""
        if name not in self._states:
            self._states[name] = self._look_at(self.by_name[name])
        return self._states[name]

    def _look_at(self, step: Step) -> tuple[str, str]:
        waits = ""
        if waiting := [need for need in step.needs if self.state(need)[0] != DONE]:
            waits = f"for {_some(waiting)}"
        elif step.wants and not any(map(self.is_done, step.wants)):
            waits = f"for any of {_some(step.wants)}"
        try:
            for source in step.sources.values():
                self._digests.of(source)
        except MissingSource as error:
            return CANNOT, str(error)
        try:
            inputs = self._inputs(step.name)
        except MissingSource:  # of a step that it needs
            return WAITS, waits
        if self._was_done(step) and step.is_there():
            return DONE, ""
        if self._is_settled(step):
            return ELSEWHERE, "its files are not here, and nothing needs them"
        return (WAITS, waits) if waits else (TO_DO, self._why_again(step.name, inputs))

    def _why_again(self, name: str, inputs: Mapping[str, Any]) -> str:
        if not (record := self._record(name)):
            return ""
        before, now = _flat(record.get("inputs", {})), _flat(inputs)
        if changed := sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key)):
            return f"{CHANGED}{_some(changed)}"
        return "its files are not here" if "finished" in record else "it was begun, and did not end"

    def _is_settled(self, step: Step) -> bool:
        """Whether a step was done with its current key, and its files are here or no longer needed."""
        if not self._was_done(step):
            return False
        dependents = [other for other in self if step.name in other.needs]
        return step.is_there() or (bool(dependents) and all(map(self._is_settled, dependents)))

    def _was_done(self, step: Step) -> bool:
        record = self._record(step.name)
        return "finished" in record and record.get("key") == self.key(step.name)

    def _record(self, name: str) -> dict[str, Any]:
        return read_saved(self.workspace.record(name))

    def begin(self, step: Step, *, beside: Sequence[str] = ()) -> None:
        """Record the inputs of a step, and remove the leftovers of a run with another key.

        The time of a step that ran `beside` others, not alone, means nothing.
        """
        key, path = self.key(step.name), self.workspace.record(step.name)
        before = self._record(step.name)
        if before.get("key") != key:
            remove(*step.resumes)
        # A run that is continued has the time of its earlier part too.
        was_alone = before.get("alone", True) or not any(path.exists() for path in step.resumes)
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = self._inputs(step.name)
        record = {"step": step.name, "key": key, "inputs": inputs, "alone": was_alone and not beside}
        write_json(path, record, indent=1)
        for name in beside:
            write_json(self.workspace.record(name), {**self._record(name), "alone": False}, indent=1)

    def finish(self, name: str, *, seconds: float) -> None:
        """Record that a step is done."""
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = {**self._record(name), "seconds": round(seconds, 3), "finished": finished}
        write_json(self.workspace.record(name), record, indent=1)
        self._states, self._keys = {}, {}


def _flat(inputs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in inputs.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _some(names: Sequence[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
