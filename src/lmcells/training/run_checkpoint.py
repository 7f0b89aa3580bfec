"""A run to a checkpoint, and back."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lmcells.training.checkpoint import Checkpoint, load_newest
from lmcells.training.clock import Clock
from lmcells.training.optimizer import optimizer_tensors, restore_optimizer
from lmcells.training.randomness import dropout_states, restore_dropout
from lmcells.training.run import Run
from lmcells.training.run_identity import require_same_run


def save_run(run: Run) -> None:
    """Write a checkpoint; every process gives its random states, the main one writes."""
    tensors = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    moments = optimizer_tensors(run.model, run.optimizer)
    tensors |= {f"optimizer.{name}": value for name, value in moments.items()}
    states = torch.stack([sampler.generator.get_state() for sampler in run.samplers])
    for rank, of_rank in enumerate(run.world.gathered(states)):
        for turn, state in enumerate(of_rank):
            tensors[f"draws.{rank + turn * run.world.size}"] = state
    for name, state in dropout_states(run.world.device).items():
        for rank, of_rank in enumerate(run.world.gathered(state)):
            tensors[f"{name}.{rank}"] = of_rank
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


def restore_run(run: Run) -> None:
    """Go back to the newest whole checkpoint, if there is one."""
    found = load_newest(run.output)
    if found is None:
        return
    require_same_run(found.made_with, run.identity, output=run.output)
    tensors = {name: torch.from_numpy(value) for name, value in found.tensors.items()}
    run.model.load_state_dict(_under("model.", tensors))
    restore_optimizer(run.model, run.optimizer, _under("optimizer.", tensors))
    for reader, sampler in zip(run.readers, run.samplers, strict=True):
        sampler.generator.set_state(tensors[f"draws.{reader.shard}"])
    restore_dropout(run.world, tensors)
    run.step, run.epoch, run.step_in_epoch = found.step, found.epoch, found.step_in_epoch
    run.centers = found.centers
    run.clock = Clock(found.seconds)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
