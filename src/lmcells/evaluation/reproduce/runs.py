"""The runs of a protocol: each model with each of its seeds, on the corpus it is trained on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lmcells.evaluation.reproduce.protocol import ADDED, TRAINED, ModelPlan, Protocol
from lmcells.evaluation.reproduce.workspace import LEAKY, MAIN


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
