"""A run of a cell model to a checkpoint, and back."""

import torch

from lmcells.training.run import Run
from lmcells.training.run_state import read_state, write_state


def save_run(run: Run) -> None:
    """Write a checkpoint; every process gives the random states of its shards."""
    states = torch.stack([sampler.generator.get_state() for sampler in run.samplers])
    draws = {
        f"draws.{rank + turn * run.world.size}": state
        for rank, of_rank in enumerate(run.world.gathered(states))
        for turn, state in enumerate(of_rank)
    }
    write_state(run, draws)


def restore_run(run: Run) -> None:
    """Go back to the newest whole checkpoint, if there is one."""
    tensors = read_state(run)
    if tensors is None:
        return
    for reader, sampler in zip(run.readers, run.samplers, strict=True):
        sampler.generator.set_state(tensors[f"draws.{reader.shard}"])
