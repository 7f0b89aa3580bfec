"""torch's global random states: dropout draws from them, so they are part of a run, and of nothing else."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from lmcells.training.distributed import World


def own_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Put torch's global random states back at the end."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def dropout_states(device: torch.device) -> dict[str, Tensor]:
    """This process' states by name."""
    states = {"dropout": torch.get_rng_state()}
    if device.type == "cuda":
        states["dropout_cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_dropout(world: World, tensors: Mapping[str, Tensor]) -> None:
    """Put back this process' states, `name.rank`; one that was not there before keeps those it was born with."""
    if (state := tensors.get(f"dropout.{world.rank}")) is not None:
        torch.set_rng_state(state)
    if (state := tensors.get(f"dropout_cuda.{world.rank}")) is not None:
        torch.cuda.set_rng_state(state, world.device)
