"""Spearman's rank correlation, with an interval, and with a third thing held fixed."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]
_FEWEST = 5
_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """rho of n pairs, with its 95 % interval (Fisher's z with the variance of Bonett and Wright, 2000)."""

    n: int
    rho: float
    low: float
    high: float


def rank_correlation(one: Numbers, other: Numbers, *, given: Numbers | None = None) -> RankCorrelation | None:
    """How far two rankings agree, -1 to 1; with `given`, beyond what the third explains of both.

    None where it says nothing: fewer than five pairs, or all values of one side alike.
    """
    sides = [one, other] if given is None else [one, other, given]
    n = len(one)
    if n < _FEWEST or any(np.ptp(side) == 0 for side in sides):
        return None
    table = np.corrcoef([_ranks(side) for side in sides])
    rho = float(table[0, 1])
    if given is not None:
        unexplained = math.sqrt((1 - table[0, 2] ** 2) * (1 - table[1, 2] ** 2))
        if unexplained < 1e-9:
            return None
        rho = float((rho - table[0, 2] * table[1, 2]) / unexplained)
    rho = min(1.0, max(-1.0, rho))
    error = math.sqrt((1 + rho**2 / 2) / (n - 3 - (given is not None)))
    center = math.atanh(min(1 - 1e-12, max(-1 + 1e-12, rho)))
    low, high = (math.tanh(center + side * _NORMAL_95 * error) for side in (-1, 1))
    return RankCorrelation(n, rho, low, high)


def _ranks(values: Numbers) -> npt.NDArray[np.float64]:
    """Ranks from 1; equals share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: npt.NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return shared[which]
