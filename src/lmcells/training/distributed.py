"""Training by several processes, which `torchrun ... -m lmcells train` starts, and their random numbers: one seed gives
independent streams for each purpose and process.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lmcells.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda")
_TURNS = 7  # of a timing

# What a stream of random numbers is for; seeds are derived from it.
INITIALISATION, DROPOUT, DRAWS, ORDER, CHUNKS = range(5)


def derived_seed(seed: int, *purpose: int) -> int:
    """A seed for a purpose: the same for equal arguments, independent for others."""
    return int(np.random.SeedSequence((seed, *purpose)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator_for(device: torch.device, seed: int, *purpose: int) -> torch.Generator:
    """A generator on a device, seeded for a purpose."""
    return torch.Generator(device=device).manual_seed(derived_seed(seed, *purpose))


@dataclass(frozen=True, slots=True)
class World:
    """This process among all that train together; with one process, operations return what they are given."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        return self._reduced(values, dist.ReduceOp.SUM)

    def max(self, values: Tensor) -> Tensor:
        return self._reduced(values, dist.ReduceOp.MAX)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Every process' values, all of one shape, by rank and on the CPU."""
        if self.size == 1:
            return [values.cpu()]
        mine = values.to(self.device)
        all_values = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(all_values, mine)
        return [each.cpu() for each in all_values]

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def _reduced(self, values: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        if self.size == 1:
            return values
        result = values.to(self.device, copy=True)
        dist.all_reduce(result, op=operation)
        return result.to(values.device)


@contextmanager
def join_world(device: str = "auto") -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun, a world of one."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = choose_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", rank=rank, world_size=size)
    try:
        yield World(chosen, rank, size)
    finally:
        dist.destroy_process_group()


def choose_device(name: str = "auto", *, local_rank: int = 0) -> torch.device:
    """The device of this name; auto is a GPU if there is one, and each process of a machine takes its own."""
    kind, _, index = name.partition(":")
    if kind not in DEVICES or (index and not index.isdigit()):
        raise ConfigError(f"device is {name!r}; allowed: {', '.join(DEVICES)}, cuda:0, cuda:1...")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError("device is 'cuda', but torch finds no CUDA device here. Use --device cpu.")
    number = int(index) if index else local_rank
    if number >= torch.cuda.device_count():
        raise ConfigError(
            f"device cuda:{number} does not exist: there are {torch.cuda.device_count()}. Start fewer processes."
        )
    return torch.device("cuda", number)


@contextmanager
def best_threads() -> Iterator[None]:
    """Let torch use the number of threads that is fastest here, as measured, unless OMP_NUM_THREADS is set.

    On busy cores several threads can be much slower than one: each waits for the slowest.
    """
    before = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ and before > 1:
        choices = sorted({1, *(2**power for power in range(1, before.bit_length())), before})
        torch.set_num_threads(min(choices, key=_seconds_with))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _seconds_with(n_threads: int) -> float:
    """Seconds for a few layers of the model's size: the median of several turns, after a warm-up."""
    torch.set_num_threads(n_threads)
    vectors, weights = torch.ones(2048, 264), torch.ones(264, 256)
    seconds = []
    for _ in range(_TURNS + 1):
        started = time.perf_counter()
        for _ in range(8):
            (vectors @ weights).sigmoid_().sum()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds[1:])[_TURNS // 2]


# Dropout draws from torch's global random states: a run saves and restores them, and leaves none behind.


def own_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Restore torch's global random states at the end."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def dropout_states(world: World) -> dict[str, Tensor]:
    """The global random states of every process: `name.rank`."""
    states = {"dropout": torch.get_rng_state()}
    if world.device.type == "cuda":
        states["dropout_cuda"] = torch.cuda.get_rng_state(world.device)
    return {
        f"{name}.{rank}": of_rank
        for name, state in states.items()
        for rank, of_rank in enumerate(world.gather(state))
    }


def restore_dropout(world: World, states: Mapping[str, Tensor]) -> None:
    """Restore this process' states; a process that is new keeps its initial ones."""
    if (state := states.get(f"dropout.{world.rank}")) is not None:
        torch.set_rng_state(state)
    if (state := states.get(f"dropout_cuda.{world.rank}")) is not None:
        torch.cuda.set_rng_state(state, world.device)
