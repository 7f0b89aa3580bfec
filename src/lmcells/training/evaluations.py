"""Scores of a model while it trains, from whoever evaluates it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from lmcells.training.clock import Clock
from lmcells.training.distributed import World
from lmcells.training.randomness import own_randomness

Evaluation = Callable[[Any, float], Mapping[str, Any]]
"""The model, of whatever kind, and the hours it was trained -> scores."""


class EvaluatedRun(Protocol):
    """A run whose model can be evaluated."""

    step: int
    clock: Clock
    world: World

    @property
    def model(self) -> nn.Module: ...


def evaluated(run: EvaluatedRun, evaluate: Evaluation) -> dict[str, Any]:
    """Ask the hook; neither its time nor its randomness is part of the run."""
    hours = run.clock.seconds / 3600
    run.model.eval()
    with run.clock.paused(), own_randomness(run.world.device), torch.no_grad():
        scores = dict(evaluate(run.model, hours))
    run.model.train()
    return {"step": run.step, "hours": hours, "evaluation": scores}
