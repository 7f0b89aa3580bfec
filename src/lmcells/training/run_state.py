"""What every kind of run needs to go on as if it had never stopped, to a checkpoint and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from lmcells.training.checkpoint import Checkpoint, load_newest
from lmcells.training.clock import Clock
from lmcells.training.distributed import World
from lmcells.training.optimizer import optimizer_tensors, restore_optimizer
from lmcells.training.randomness import dropout_states, restore_dropout
from lmcells.training.run_identity import require_same_run


class ResumableRun(Protocol):
    """A run that can be stopped and go on."""

    output: Path
    optimizer: torch.optim.Adam
    world: World
    clock: Clock
    identity: dict[str, Any]
    step: int
    epoch: int
    step_in_epoch: int
    centers: int

    @property
    def model(self) -> nn.Module: ...


def write_state(run: ResumableRun, own: Mapping[str, Tensor]) -> None:
    """Write a checkpoint, with what this kind of run has besides; every process takes part, the main one writes."""
    tensors = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    moments = optimizer_tensors(run.model, run.optimizer)
    tensors |= {f"optimizer.{name}": value for name, value in moments.items()}
    for name, state in dropout_states(run.world.device).items():
        for rank, of_rank in enumerate(run.world.gathered(state)):
            tensors[f"{name}.{rank}"] = of_rank
    tensors |= own
    if run.world.is_main:
        Checkpoint(
            step=run.step,
            epoch=run.epoch,
            step_in_epoch=run.step_in_epoch,
            centers=run.centers,
            seconds=run.clock.seconds,
            made_with=run.identity,
            tensors={name: value.cpu().numpy() for name, value in tensors.items()},
        ).save(run.output)
    run.world.wait()


def read_state(run: ResumableRun) -> dict[str, Tensor] | None:
    """Go back to the newest whole checkpoint and return its tensors, or None if there is none."""
    found = load_newest(run.output)
    if found is None:
        return None
    require_same_run(found.made_with, run.identity, output=run.output)
    tensors = {name: torch.from_numpy(value) for name, value in found.tensors.items()}
    run.model.load_state_dict(under("model.", tensors))
    restore_optimizer(run.model, run.optimizer, under("optimizer.", tensors))
    restore_dropout(run.world, tensors)
    run.step, run.epoch, run.step_in_epoch = found.step, found.epoch, found.step_in_epoch
    run.centers = found.centers
    run.clock = Clock(found.seconds)
    return tensors


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
