"""Rank correlations between several columns at once, with bootstrap intervals.

`rank_correlation` gives one correlation with an interval by formula. Here rows are drawn with replacement; every column
is sorted once, and a resample only counts how often each row was drawn, so that it costs no sorting.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.analysis.mixture import Floats, Random
from lmcells.evaluation.intervals import Interval, percentile_interval

_FEWEST = 5


@dataclass(frozen=True, eq=False)
class RankBootstrap:
    """Spearman's correlations between k columns: of all rows, and of each resample of them.

    bootstrap = RankBootstrap.of(columns, random=0)
    bootstrap.interval(0, 1)            # between two columns
    bootstrap.interval(0, 1, given=2)   # beyond what a third explains of both
    """

    n: int  # rows
    whole: Floats  # (k, k)
    resampled: Floats  # (n_resamples, k, k)

    @classmethod
    def of(
        cls, columns: npt.NDArray[np.floating], *, n_resamples: int = 1_000, random: Random
    ) -> "RankBootstrap":
        """Rank and resample the columns of a table: (n, k)."""
        random = np.random.default_rng(random)
        n = columns.shape[0]
        groups = [np.unique(column, return_inverse=True)[1] for column in columns.T]
        draws = (np.bincount(random.integers(n, size=n), minlength=n) for _ in range(n_resamples if n else 0))
        resampled = np.array([_correlations(groups, drawn) for drawn in draws])
        return cls(n, _correlations(groups, np.ones(n, np.int64)), resampled)

    def interval(
        self, one: int, other: int, *, given: int | None = None, level: float = 0.95
    ) -> Interval | None:
        """The correlation of two columns, with a third held fixed where it is given; None where it says nothing."""
        if self.n < _FEWEST:
            return None
        estimate = _partial(self.whole, one, other, given)
        resampled = _partial(self.resampled, one, other, given)
        resampled = resampled[np.isfinite(resampled)]  # a resample may have one value only
        if not np.isfinite(estimate) or resampled.size < 2:
            return None
        return percentile_interval(float(estimate), resampled, level=level)


def _correlations(groups: list[npt.NDArray[np.intp]], drawn: npt.NDArray[np.int64]) -> Floats:
    """Correlations between the ranks of columns, each row as often as it was drawn; equals share their mean rank."""
    n = drawn.sum()
    ranks = []
    for group in groups:
        size = np.bincount(group, weights=drawn)
        ranks.append((np.cumsum(size) - (size - 1) / 2)[group] - (n + 1) / 2)
    centered = np.array(ranks)
    products = (centered * drawn) @ centered.T  # (k, k)
    scale = np.sqrt(np.diag(products))
    scale[scale == 0] = np.nan  # all values alike: no correlation
    correlations: Floats = products / np.outer(scale, scale)
    return correlations


def _partial(table: Floats, one: int, other: int, given: int | None) -> Floats:
    plain = table[..., one, other]
    if given is None:
        return np.asarray(plain)
    first, second = table[..., one, given], table[..., other, given]
    unexplained = np.sqrt(np.maximum((1 - first**2) * (1 - second**2), 0))
    unexplained = np.where(unexplained < 1e-9, np.nan, unexplained)
    return np.asarray((plain - first * second) / unexplained)
