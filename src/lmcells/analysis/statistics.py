"""Numerics that the views share: distances, divergences, principal axes, rank correlations with bootstrap intervals."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row
from lmcells.evaluation.intervals import percentile_interval, resampled_weights

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]
Question = tuple[str, str, str | None]

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


def rank_intervals(
    columns: Mapping[str, Numbers],
    questions: Iterable[Question],
    *,
    random: np.random.Generator,
    clusters: npt.NDArray[np.integer] | None = None,
    n_resamples: int = N_RESAMPLES,
) -> dict[Question, Row]:
    """Spearman's correlations with 95 % intervals, one for each question that has an answer.

    A question (one, other, given) names two columns and, unless it is None, a third that is held fixed. Rows are
    resampled, those of one cluster together. scipy has no clustered bootstrap, and would sort every resample. Here
    every column is sorted once, and a resample only counts how often each row was drawn.
    """
    n = len(next(iter(columns.values())))
    of_rows = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    n_drawn = int(of_rows.max(initial=-1)) + 1
    if n_drawn < _FEWEST:
        return {}
    groups = [np.unique(column, return_inverse=True)[1] for column in columns.values()]
    whole = rank_correlations(groups, np.ones(n))  # (k, k)
    draws = (resampled_weights(of_rows, n_drawn, random) for _ in range(n_resamples))
    resampled = np.array([rank_correlations(groups, times) for times in draws])  # (n_resamples, k, k)
    names, found = list(columns), {}
    for question in questions:
        places = [names.index(name) for name in question if name is not None]
        estimate, values = _partial(whole, *places), _partial(resampled, *places)
        values = values[np.isfinite(values)]  # in a resample all values may be the same
        if np.isfinite(estimate) and values.size > 1:
            found[question] = Row(asdict(percentile_interval(float(estimate), values)))
    return found


def with_interval(rho: Row) -> str:
    """A correlation and its interval; zero has no sign."""
    estimate, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (rho.estimate, rho.low, rho.high))
    return f"{estimate} [{low}, {high}]"


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
