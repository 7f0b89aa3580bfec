"""What a run reports while it goes on: its losses, and the scores of whoever evaluates it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from lmcells.model import CellModel
from lmcells.training.failures import TrainingDiverged
from lmcells.training.progress import Progress, peak_memory
from lmcells.training.randomness import own_randomness
from lmcells.training.run import Run

Evaluation = Callable[[CellModel, float], Mapping[str, Any]]
"""The model and the hours it was trained -> scores."""


def report(run: Run) -> Progress:
    """Read the losses from the device, and see that they are numbers."""
    means = run.totals.read(run.world, n_shards=run.n_shards)
    seconds, passed = run.clock.lap()
    if not means.are_finite:
        raise TrainingDiverged(
            f"the loss is no longer finite after step {run.step:,} (reconstruction {means.reconstruction:g}, "
            f"prior divergence {means.prior_divergence:g}, agreement {means.agreement:g}, gradient norm "
            f"{means.gradient_norm:g}). Lower training.learning_rate or set training.gradient_clip; the last "
            "checkpoint is from before."
        )
    per_second = means.n_rows / max(passed, 1e-9)
    left = run.settings.epochs * run.centers_per_epoch - run.centers
    return Progress(
        step=run.step,
        n_steps=run.settings.epochs * run.steps_per_epoch,
        epoch=run.epoch + 1 if run.step_in_epoch else run.epoch,
        n_epochs=run.settings.epochs,
        centers=run.centers,
        centers_per_second=per_second,
        reconstruction=means.reconstruction,
        prior_divergence=means.prior_divergence,
        agreement=means.agreement if run.settings.agreement_weight else None,
        gradient_norm=means.gradient_norm,
        seconds=seconds,
        seconds_left=left / per_second,
        peak_memory=peak_memory(run.world.device),
    )


def evaluated(run: Run, evaluate: Evaluation) -> dict[str, Any]:
    """Ask the hook; neither its time nor its randomness is part of the run."""
    hours = run.clock.seconds / 3600
    run.model.eval()
    with run.clock.paused(), own_randomness(run.world.device), torch.no_grad():
        scores = dict(evaluate(run.model, hours))
    run.model.train()
    return {"step": run.step, "hours": hours, "evaluation": scores}
