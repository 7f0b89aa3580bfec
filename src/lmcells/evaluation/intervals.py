"""Confidence intervals from resampled values of a statistic."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation.metrics import Coding, Tally, headline
from lmcells.evaluation.predictions import Floats, Integers, Predictions

# Confidence intervals from resampled values of a statistic.


_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """An estimate, the interval around it, and the standard deviation of the resampled values."""

    estimate: float
    low: float
    high: float
    level: float
    standard_error: float


def percentile_interval(estimate: float, resampled: Floats, *, level: float) -> Interval:
    """From the (1 - level)/2 to the (1 + level)/2 quantile of the resampled values."""
    return _between_quantiles(estimate, resampled, (1 - level) / 2, (1 + level) / 2, level)


def bca_interval(estimate: float, resampled: Floats, jackknife: Floats, *, level: float) -> Interval:
    """Bias-corrected and accelerated interval (Efron 1987): quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z))).

    z0 = Phi^-1(share of resampled values below the estimate, equal ones half), z = Phi^-1((1 -+ level)/2), and
    with d the jackknife values subtracted from their mean, a = sum d^3 / (6 (sum d^2)^1.5).
    """
    n = len(resampled)
    share = ((resampled < estimate).sum() + 0.5 * (resampled == estimate).sum()) / n
    z0 = _NORMAL.inv_cdf(min(max(float(share), 0.5 / n), 1 - 0.5 / n))
    d = jackknife.mean() - jackknife
    spread = float((d**2).sum())
    a = float((d**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0

    def quantile(share: float) -> float:
        z = z0 + _NORMAL.inv_cdf(share)
        if a * z >= 1:  # beyond the pole of a very skewed statistic: the end of the distribution
            return float(z > 0)
        return _NORMAL.cdf(z0 + z / (1 - a * z))

    return _between_quantiles(
        estimate, resampled, quantile((1 - level) / 2), quantile((1 + level) / 2), level
    )


def _between_quantiles(
    estimate: float, resampled: Floats, lower: float, upper: float, level: float
) -> Interval:
    low, high = np.quantile(resampled, [lower, upper])
    return Interval(estimate, float(low), float(high), level, float(resampled.std(ddof=1)))


# How far a metric would move on another test set of the same kind.
#
# `paper_intervals` is the paper's procedure: 100 samples of 80 % of the examples, without replacement. It answers another
# question: for a mean over n examples its spread is sqrt((1 - 0.8) / 0.8) = half the standard error. It is here so that
# the paper's figure can be drawn; quote `bootstrap_intervals`.


Method = Literal["bca", "percentile"]
_JACKKNIFE_GROUPS = (
    200  # deleting groups estimates the same acceleration as deleting single notes, in bounded time
)


def paper_intervals(
    predictions: Predictions,
    *,
    n_samples: int = 100,
    share: float = 0.8,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """The paper's bootstrap: percentiles of the metrics over random subsets, each `share` of the examples."""
    random = np.random.default_rng(seed)
    coding = Coding.of(predictions)
    n = len(predictions)
    size = round(share * n)
    if not 0 < share < 1 or not size:
        raise InputError(f"A sample must be a proper part of the examples; found a share of {share} of {n}.")
    subsets = ((random.permutation(n) < size).astype(np.float64) for _ in range(n_samples))
    sampled = headline(Tally.stack(coding.tally(weights) for weights in subsets))
    whole = headline(coding.tally())
    return {
        name: percentile_interval(float(whole[name]), values, level=level) for name, values in sampled.items()
    }


def bootstrap_intervals(
    predictions: Predictions,
    *,
    method: Method = "bca",
    n_resamples: int = 2_000,
    level: float = 0.95,
    by_note: bool = True,
    seed: int = 0,
) -> dict[str, Interval]:
    """Draw as many notes as there are, with replacement, and every example with its note; one interval a metric.

    Examples of one note resemble each other, so drawing examples (`by_note=False`) gives intervals that are too narrow.
    An example without a note is drawn alone. A short form that is not drawn is not in that resample's means.
    """
    coding = Coding.of(predictions)
    clusters = predictions.cluster if by_note else np.arange(len(predictions))
    n_clusters = int(clusters.max(initial=-1)) + 1
    if n_clusters < 2:
        raise InputError(f"An interval needs examples from at least two notes; found {n_clusters}.")
    random = np.random.default_rng(seed)
    draws = (resampled_weights(clusters, n_clusters, random) for _ in range(n_resamples))
    resampled = headline(Tally.stack(coding.tally(weights) for weights in draws))
    whole = headline(coding.tally())
    if method == "percentile":
        return {
            name: percentile_interval(float(whole[name]), values, level=level)
            for name, values in resampled.items()
        }
    left_out = deleted_group_weights(clusters, n_clusters, random)
    jackknife = headline(Tally.stack(coding.tally(weights) for weights in left_out))
    return {
        name: bca_interval(float(whole[name]), values, jackknife[name], level=level)
        for name, values in resampled.items()
    }


def resampled_weights(clusters: Integers, n_clusters: int, random: np.random.Generator) -> Floats:
    """How often each example is in one resample of the clusters."""
    times = np.bincount(random.integers(n_clusters, size=n_clusters), minlength=n_clusters)
    return times[clusters].astype(np.float64)


def deleted_group_weights(clusters: Integers, n_clusters: int, random: np.random.Generator) -> list[Floats]:
    """For each of at most 200 random groups of clusters, the weights that leave the group out."""
    n_groups = min(n_clusters, _JACKKNIFE_GROUPS)
    group = random.permutation(np.arange(n_clusters) % n_groups)[clusters]
    return [(group != g).astype(np.float64) for g in range(n_groups)]
