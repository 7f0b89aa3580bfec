"""When a loss is flat: it has stopped falling by more than a small part of itself."""

import math

import torch
from torch import Tensor


class Flatness:
    """Follows a loss from check to check.

    A check counts as an improvement when the loss is lower by the relative `tolerance` than at the last improvement,
    so that many small steps down are one as well. After `patience` checks in a row without, the loss is flat.
    """

    def __init__(self, *, tolerance: float, patience: int) -> None:
        self._tolerance, self._patience = tolerance, patience
        self.lowest = math.inf
        self.n_unimproved = 0  # checks without improvement so far, in a row or not
        self._improved, self._n_stale = math.inf, 0  # the loss of the last improvement, and the checks since

    @property
    def is_flat(self) -> bool:
        return self._n_stale >= self._patience

    def add(self, loss: float, *, counts: bool = True) -> bool:
        """Take note of a check; -> whether its loss is the lowest so far.

        One that does not count can improve the loss, but it is no sign of flatness.
        """
        if loss < self._improved * (1 - self._tolerance):
            self._improved, self._n_stale = loss, 0
        elif counts:
            self._n_stale += 1
            self.n_unimproved += 1
        is_lowest = loss < self.lowest
        self.lowest = min(loss, self.lowest)
        return is_lowest

    def state(self) -> Tensor:
        """What a checkpoint keeps: (4,) float64."""
        return torch.tensor(
            [self.lowest, self._improved, self._n_stale, self.n_unimproved], dtype=torch.float64
        )

    def restore(self, state: Tensor) -> None:
        """Put back what `state` returned."""
        self.lowest, self._improved, n_stale, n_unimproved = state.tolist()
        self._n_stale, self.n_unimproved = int(n_stale), int(n_unimproved)
