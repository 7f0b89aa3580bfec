"""Where everything of a reproduction stands, inside one folder.

corpus/, corpus.packed           the notes; corpus-leaky with the test notes as well
datasets/NAME.jsonl              and NAME.inventory.json
train/MODEL-SEED                 model folders; MODEL-SEED.training beside them
evaluate/DATASET/MODEL-SEED.*    predictions, and what else is known about the run
steps/                           a record of every step that is done
report/DATASET/report.html       and results.md, index.html
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lmcells.corpus import Corpus
from lmcells.corpus.packing import unpack_corpus
from lmcells.evaluation.reproduce.protocol import ADDED, TRAINED, ModelPlan, Protocol

# Where everything of a reproduction stands, inside one folder.
#
# corpus/, corpus.packed           the notes; corpus-leaky with the test notes as well
# datasets/NAME.jsonl              and NAME.inventory.json
# train/MODEL-SEED                 model folders; MODEL-SEED.training beside them
# evaluate/DATASET/MODEL-SEED.*    predictions, and what else is known about the run
# steps/                           a record of every step that is done
# report/DATASET/report.html       and results.md, index.html


MAIN, LEAKY = "main", "leaky"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder, and the places in it."""

    folder: Path

    def corpus(self, which: str) -> Path:
        """A corpus' folder."""
        return self.folder / ("corpus" if which == MAIN else f"corpus-{which}")

    def packed(self, which: str) -> Path:
        """The same corpus as one file."""
        return self.folder / f"{self.corpus(which).name}.packed"

    def open_corpus(self, which: str) -> Corpus:
        """Open a corpus; where only its packed file has travelled, unpack that first."""
        folder = self.corpus(which)
        return Corpus.open(folder) if folder.is_dir() else unpack_corpus(self.packed(which), folder)

    def dataset(self, name: str) -> Path:
        """A dataset's examples."""
        return self.folder / "datasets" / f"{name}.jsonl"

    def inventory(self, name: str) -> Path:
        """A dataset's senses."""
        return self.folder / "datasets" / f"{name}.inventory.json"

    def model(self, run: str) -> Path:
        """A trained model's folder."""
        return self.folder / "train" / run

    def training(self, run: str) -> Path:
        """Where a training run keeps its state, beside the model."""
        return self.folder / "train" / f"{run}.training"

    def evaluation(self, dataset: str, run: str) -> Path:
        """The stem of an evaluation's files."""
        return self.folder / "evaluate" / dataset / run

    def log(self, step: str) -> Path:
        """What a step's process said."""
        return self.folder / "logs" / f"{step}.log"

    @property
    def selection(self) -> Path:
        """Which setting was chosen."""
        return self.folder / "selection.json"

    @property
    def report(self) -> Path:
        """The folder of the reports."""
        return self.folder / "report"

    def record(self, step: str) -> Path:
        """The record of a step that is done."""
        return self.folder / "steps" / f"{step}.json"

    @property
    def digests(self) -> Path:
        """The checksums of what the protocol reads."""
        return self.folder / "steps" / "sources.json"


def remove(*paths: Path) -> None:
    """Remove files and folders, whatever is there."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


# The runs of a protocol: each model with each of its seeds, on the corpus it is trained on.


@dataclass(frozen=True, slots=True)
class Run:
    """One model, one seed."""

    model: ModelPlan
    seed: int | None
    corpus: str = MAIN

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.model.name if self.seed is None else f"{self.model.name}-{self.seed}"

    @property
    def is_trained(self) -> bool:
        """Whether it is trained here."""
        return self.model.kind in TRAINED


def main_runs(protocol: Protocol) -> Iterator[Run]:
    """The runs that the report's tables are about."""
    for model in protocol.models:
        yield from runs_of(model)


def selection_runs(protocol: Protocol) -> Iterator[Run]:
    """The runs of settings that are compared beside the model's own."""
    for setting in protocol.selection.settings if protocol.selection else ():
        yield from runs_of(setting)


def leaky_runs(protocol: Protocol) -> Iterator[Run]:
    """The runs of the leakage ablation: trained with the test notes as well."""
    if (plan := protocol.leakage) is not None:
        model = protocol.model(plan.model)
        yield from runs_of(replace(model, name=f"{model.name}{ADDED}{LEAKY}", seeds=plan.seeds), corpus=LEAKY)


def runs_of(model: ModelPlan, *, corpus: str = MAIN) -> Iterator[Run]:
    """A run a seed; one where there is no chance in it."""
    for seed in model.seeds or (None,):
        yield Run(model, seed, corpus)
