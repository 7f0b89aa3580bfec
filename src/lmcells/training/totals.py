"""Losses and gradient norms between two reports."""

import math
from dataclasses import astuple, dataclass

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

    @property
    def are_finite(self) -> bool:
        return all(math.isfinite(value) for value in astuple(self))


class Totals:
    """Losses summed on the device, so that no step waits for them to be read."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)
        self._n_steps, self._n_rows = 0, 0

    def add(self, parts: Tensor) -> None:
        """Add one shard's reconstruction, prior divergence and agreement: (3,)."""
        self._sums[:3] += parts

    def add_norm(self, norm: Tensor) -> None:
        """Add a step's gradient norm: a scalar."""
        self._sums[3] += norm

    def count_step(self, *, n_rows: int) -> None:
        """Count a step of so many rows."""
        self._n_steps += 1
        self._n_rows += n_rows

    def read(self, world: World, *, n_shards: int) -> Means:
        """Means since the last reading: over the rows, the shards and the steps of all processes."""
        sums = world.add_up(self._sums).tolist()
        n_rows, n_steps = max(self._n_rows, 1), max(self._n_steps, 1)
        means = Means(
            reconstruction=sums[0] / n_rows,
            prior_divergence=sums[1] / n_rows,
            agreement=sums[2] / (n_steps * n_shards),
            gradient_norm=sums[3] / (n_steps * world.size),
            n_rows=self._n_rows,
        )
        self._sums.zero_()
        self._n_steps, self._n_rows = 0, 0
        return means
