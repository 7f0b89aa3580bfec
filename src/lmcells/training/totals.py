"""Losses and gradient norms between two reports."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lmcells.training.distributed import World


@dataclass(frozen=True, slots=True)
class Means:
    """What a report says of the steps since the one before it."""

    reconstruction: float  # a center
    prior_divergence: float  # a center
    agreement: float  # a shard and step
    gradient_norm: float  # a step, before clipping
    n_rows: int


class Sums(NamedTuple):
    """What was added up since the last reading, over all processes."""

    parts: list[float]
    gradient_norm: float  # the mean over steps
    n_rows: int
    n_steps: int


class Totals:
    """Losses summed on the device, so that no step waits for them to be read."""

    def __init__(self, device: torch.device, *, n_parts: int = 3) -> None:
        self._sums = torch.zeros(n_parts + 1, dtype=torch.float64, device=device)  # the norm comes last
        self._n_steps, self._n_rows = 0, 0

    def add(self, parts: Tensor) -> None:
        """Add the parts of one shard's loss, such as reconstruction, prior divergence and agreement: (n_parts,)."""
        self._sums[:-1] += parts

    def add_norm(self, norm: Tensor) -> None:
        """Add a step's gradient norm: a scalar."""
        self._sums[-1] += norm

    def count_step(self, *, n_rows: int) -> None:
        """Count a step of so many rows."""
        self._n_steps += 1
        self._n_rows += n_rows

    def read_sums(self, world: World) -> Sums:
        """Sums since the last reading; waits for the device."""
        *parts, norm = world.add_up(self._sums).tolist()
        sums = Sums(parts, norm / (max(self._n_steps, 1) * world.size), self._n_rows, self._n_steps)
        self._sums.zero_()
        self._n_steps, self._n_rows = 0, 0
        return sums

    def read(self, world: World, *, n_shards: int) -> Means:
        """Means of a cell model since the last reading: over the rows, the shards and the steps of all processes."""
        sums = self.read_sums(world)
        reconstruction, prior_divergence, agreement = sums.parts
        n_rows = max(sums.n_rows, 1)
        return Means(
            reconstruction=reconstruction / n_rows,
            prior_divergence=prior_divergence / n_rows,
            agreement=agreement / (max(sums.n_steps, 1) * n_shards),
            gradient_norm=sums.gradient_norm,
            n_rows=sums.n_rows,
        )
