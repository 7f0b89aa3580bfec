"""Numerics that the views share: distances, divergences, principal axes, rank correlations with bootstrap intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.evaluation.intervals import Interval, percentile_interval, resampled_weights

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]

N_RESAMPLES = 1_000
_FEWEST = 5  # rows (or clusters of rows) that an interval needs


def squared_distances(first: Floats, second: Floats) -> Floats:
    """|x - y|^2 of all pairs: (n, d), (m, d) -> (n, m)."""
    # Centered first: far from the origin the three terms would cancel.
    center = second.mean(axis=0)
    first, second = first - center, second - center
    lengths = np.einsum("nd,nd->n", first, first)[:, None] + np.einsum("md,md->m", second, second)
    distances: Floats = np.maximum(lengths - 2 * first @ second.T, 0)
    return distances


def isotropic_divergence(
    distance: Reals, *, log_variance: Reals, other_log_variance: Reals, dim: int
) -> Floats:
    """KL(q || p) in nats from the squared distance of the means; all broadcast. See `lmcells.model.kl_divergence`."""
    ratio = log_variance.astype(np.float64) - other_log_variance
    precision = np.exp(-other_log_variance.astype(np.float64))
    divergence: Floats = 0.5 * (dim * (np.expm1(ratio) - ratio) + distance * precision)
    return divergence


def log_sum_exp(terms: Floats) -> Floats:
    """log sum_k exp(term_k), without overflow: (n, K) -> (n,)."""
    largest = terms.max(axis=1)
    sums: Floats = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
    return sums


def log_softmax(scores: Floats) -> Floats:
    """The logarithm of the softmax of each row."""
    return scores - log_sum_exp(scores)[:, None]


def principal_plane(points: Floats) -> Floats:
    """The first two principal axes: (n, d) -> (n, 2). On each, the farthest point is on the positive side."""
    left, scale, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    plane = np.zeros((len(points), 2))
    n_axes = min(2, scale.size)
    plane[:, :n_axes] = left[:, :n_axes] * scale[:n_axes]
    farthest = plane[np.abs(plane).argmax(axis=0), (0, 1)]
    oriented: Floats = plane * np.where(farthest < 0, -1.0, 1.0)
    return oriented


@dataclass(frozen=True, eq=False)
class RankCorrelations:
    """Spearman's correlations between all columns: of all rows, and of each bootstrap resample.

    found = RankCorrelations.of({"weight": weights, "words": n_words, "tokens": n_tokens}, random=random)
    found.interval("weight", "words")                   # between two columns
    found.interval("weight", "words", given="tokens")   # beyond what a third explains of both

    scipy has no clustered bootstrap, and would sort every resample. Here every column is sorted once, and a resample
    only counts how often each row was drawn.
    """

    n: int  # rows
    n_drawn: int  # what is resampled: rows, or clusters of rows
    names: tuple[str, ...]
    whole: Floats  # (k, k)
    resampled: Floats  # (n_resamples, k, k)

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Numbers],
        *,
        random: np.random.Generator,
        clusters: npt.NDArray[np.integer] | None = None,
        n_resamples: int = N_RESAMPLES,
    ) -> "RankCorrelations":
        """Rank and resample columns of the same length; rows of the same cluster are drawn together."""
        n = len(next(iter(columns.values())))
        of_rows = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
        n_drawn = int(of_rows.max(initial=-1)) + 1
        groups = [np.unique(column, return_inverse=True)[1] for column in columns.values()]
        resampled = [
            rank_correlations(groups, resampled_weights(of_rows, n_drawn, random))
            for _ in range(n_resamples if n_drawn >= _FEWEST else 0)
        ]
        return cls(n, n_drawn, tuple(columns), rank_correlations(groups, np.ones(n)), np.array(resampled))

    def interval(
        self, one: str, other: str, *, given: str | None = None, level: float = 0.95
    ) -> Interval | None:
        """The correlation of two columns, at a fixed third where `given`; None where it is not defined."""
        if self.n_drawn < _FEWEST:
            return None
        places = [self.names.index(name) for name in (one, other, *([given] if given else []))]
        estimate, resampled = _partial(self.whole, *places), _partial(self.resampled, *places)
        resampled = resampled[np.isfinite(resampled)]  # in a resample all values may be the same
        if not np.isfinite(estimate) or resampled.size < 2:
            return None
        return percentile_interval(float(estimate), resampled, level=level)


def rank_correlations(groups: list[npt.NDArray[np.intp]], times: Floats) -> Floats:
    """Correlations between the ranks of columns, row i counted times[i] times; ties share a mean rank: -> (k, k)."""
    n = times.sum()
    ranks = []
    for group in groups:
        size = np.bincount(group, weights=times)
        ranks.append((np.cumsum(size) - (size - 1) / 2)[group] - (n + 1) / 2)
    centered = np.array(ranks)
    products = (centered * times) @ centered.T  # (k, k)
    scale = np.sqrt(np.diag(products))
    scale[scale == 0] = np.nan  # all values the same: no correlation
    correlations: Floats = products / np.outer(scale, scale)
    return correlations


def _partial(table: Floats, one: int, other: int, given: int | None = None) -> Floats:
    plain = table[..., one, other]
    if given is None:
        return np.asarray(plain)
    first, second = table[..., one, given], table[..., other, given]
    unexplained = np.sqrt(np.maximum((1 - first**2) * (1 - second**2), 0))
    unexplained = np.where(unexplained < 1e-9, np.nan, unexplained)
    return np.asarray((plain - first * second) / unexplained)
