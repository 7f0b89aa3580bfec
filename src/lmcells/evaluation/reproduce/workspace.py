"""Where everything of a reproduction stands, inside one folder, and the runs it consists of.

corpus/, corpus.packed           the notes; corpus-leaky with the test notes as well
datasets/NAME.jsonl              NAME.inventory.json, and NAME.account.json: how it came about
train/MODEL-SEED                 model folders; MODEL-SEED.training beside them, with best/DATASET in it
evaluate/DATASET/MODEL-SEED.*    predictions, and what else is known about the run
steps/                           a record of every step that is begun or done; checksums of what the protocol reads
logs/                            what the processes of steps printed
selection.json                   which setting was chosen
report/DATASET/report.html       and results.md, index.html
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from lmcells.evaluation.reproduce.protocol import ADDED, TRAINED, ModelPlan, Protocol

MAIN, LEAKY = "main", "leaky"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder, and the places in it."""

    folder: Path

    def corpus(self, which: str) -> Path:
        return self.folder / ("corpus" if which == MAIN else f"corpus-{which}")

    def dataset(self, name: str) -> Path:
        return self.folder / "datasets" / f"{name}.jsonl"

    def inventory(self, name: str) -> Path:
        return self.folder / "datasets" / f"{name}.inventory.json"

    def account(self, name: str) -> Path:
        return self.folder / "datasets" / f"{name}.account.json"

    def notes(self, name: str) -> Path:
        """Return the file of the notes that a dataset keeps out of pre-training, where that is a share of all."""
        return self.folder / "datasets" / f"{name}.notes.txt"

    def model(self, run: str) -> Path:
        return self.folder / "train" / run

    def evaluation(self, dataset: str, run: str, suffix: str = "") -> Path:
        """Return one of an evaluation's files; without a suffix, what their names begin with."""
        return self.folder / "evaluate" / dataset / f"{run}{suffix}"

    def record(self, step: str) -> Path:
        return self.folder / "steps" / f"{step}.json"

    @property
    def selection(self) -> Path:
        return self.folder / "selection.json"


def remove(*paths: Path) -> None:
    """Remove files and folders, whatever is there."""
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
        """What its files are called."""
        return self.model.name if self.seed is None else f"{self.model.name}-{self.seed}"

    @property
    def is_trained(self) -> bool:
        """Whether it is trained here."""
        return self.model.kind in TRAINED


def runs_of(model: ModelPlan, *, corpus: str = MAIN) -> list[Run]:
    """Return a run for each seed; one where nothing is random."""
    return [Run(model, seed, corpus) for seed in model.seeds or (None,)]


def leaky_runs(protocol: Protocol) -> list[Run]:
    """Return the runs of the leakage ablation: trained with the test notes as well."""
    if (plan := protocol.leakage) is None:
        return []
    model = protocol.model(plan.model)
    return runs_of(replace(model, name=f"{model.name}{ADDED}{LEAKY}", seeds=plan.seeds), corpus=LEAKY)
