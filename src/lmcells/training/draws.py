"""Drawing from discrete distributions on a device, in static shapes and without host synchronisation."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def uniform_below(sizes: Tensor, generator: torch.Generator) -> Tensor:
    """One index below each size, all alike: (...) -> (...) int32. Sizes far below 2^24 are drawn evenly."""
    chances = torch.rand(sizes.shape, generator=generator, device=sizes.device)
    return torch.minimum((chances * sizes).to(torch.int32), sizes - 1)


def chance(rate: float, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """True at the given rate: (...) bool."""
    return torch.rand(shape, generator=generator, device=generator.device) < rate


def take(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]` for int32 or int64 indices of any shape: (N,), (...) -> (...)."""
    return values.index_select(0, index.reshape(-1)).view(index.shape)


@dataclass(frozen=True, slots=True)
class AliasTable:
    """A distribution over 0..n-1, drawn in constant time (Walker 1977; built as Vose 1991 does).

    A slot is drawn evenly, then either it or its alias.
    """

    threshold: Tensor  # (n,) float32, chance of the slot itself
    alias: Tensor  # (n,) int32

    @classmethod
    def of_weights(cls, weights: npt.NDArray[np.float64], *, device: torch.device) -> Self:
        """Build the table of a distribution given by weights that need not add to one."""
        n = weights.size
        threshold = weights * (n / weights.sum())
        alias = np.arange(n, dtype=np.int32)
        chances = threshold.tolist()
        small = [slot for slot, value in enumerate(chances) if value < 1]
        large = [slot for slot, value in enumerate(chances) if value >= 1]
        while small and large:
            lacking, giving = small.pop(), large[-1]
            alias[lacking] = giving
            chances[giving] -= 1 - chances[lacking]
            if chances[giving] < 1:
                small.append(large.pop())
        for slot in small + large:  # whole but for rounding
            chances[slot] = 1.0
        return cls(
            torch.tensor(chances, dtype=torch.float32, device=device), torch.from_numpy(alias).to(device)
        )

    def draw(self, shape: tuple[int, ...] | torch.Size, generator: torch.Generator) -> Tensor:
        """Independent draws: -> `shape`, int32."""
        device = self.alias.device
        slots = torch.randint(
            self.alias.shape[0], shape, generator=generator, device=device, dtype=torch.int32
        )
        own = torch.rand(shape, generator=generator, device=device) < take(self.threshold, slots)
        return torch.where(own, slots, take(self.alias, slots))
