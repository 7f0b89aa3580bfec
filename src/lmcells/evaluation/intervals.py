"""How far a metric would move on another test set of the same kind and size: confidence intervals by resampling notes.

`paper_intervals` is the paper's procedure: 100 samples of 80 % of the examples, without replacement. It answers another
question: for a mean over n examples its spread is sqrt((1 - 0.8) / 0.8) = half the standard error. It is here so that
the paper's figure can be drawn; quote `bootstrap_intervals`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from lmcells.evaluation.metrics import LOWER_IS_BETTER, Tally, headline, tally
from lmcells.evaluation.predictions import Floats, Integers, Predictions

_NORMAL = NormalDist()
_PAPER_SHARE = 0.8
_JACKKNIFE_GROUPS = 200  # deleting groups estimates the same acceleration as deleting notes, in bounded time

# Weights of the examples, one array per resample -> values of statistics by name, one value per resample.
Statistics = Callable[[Iterable[Floats]], dict[str, Floats]]


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
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), level, float(resampled.std(ddof=1)))


def bca_interval(estimate: float, resampled: Floats, jackknife: Floats, *, level: float) -> Interval:
    """Accelerated interval (BCa, Efron 1987) of the resampled values, moved so that their mean is the estimate.

    Its ends are the quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z))), with z = Phi^-1((1 -+ level)/2),
    z0 = skewness of the resampled values / 6, so that Phi(z0) is the quantile of their mean (Cornish-Fisher), and
    a = skewness of the jackknife's deviations, sum d^3 / (6 (sum d^2)^1.5).

    BCa proper corrects the bias of the resampled values instead, by z0 = Phi^-1(share of them below the estimate). That
    bias is the resampling's own: a resample has fewer distinct notes than the test set, so rare senses drop out of it
    and macro F1 rises, which another test set of the same size does not. Corrected, it put the estimate outside its
    interval.
    """
    bias = float(resampled.mean()) - estimate
    z0 = _skewness(resampled) / 6
    a = -_skewness(jackknife) / (6 * len(jackknife) ** 0.5)

    def quantile(share: float) -> float:
        z = z0 + _NORMAL.inv_cdf(share)
        if a * z >= 1:  # beyond the pole of a very skewed statistic: the end of the distribution
            return float(z > 0)
        return _NORMAL.cdf(z0 + z / (1 - a * z))

    low, high = np.quantile(resampled, [quantile((1 - level) / 2), quantile((1 + level) / 2)]) - bias
    standard_error = float(resampled.std(ddof=1))
    # Where all values are equal, rounding could leave the estimate out.
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), level, standard_error)


def _skewness(values: Floats) -> float:
    d = values - values.mean()
    variance = float((d**2).mean())
    return float((d**3).mean()) / variance**1.5 if variance > 0 else 0.0


def bca_intervals(
    statistics: Statistics, clusters: Integers, *, n_resamples: int, level: float, seed: int
) -> dict[str, Interval]:
    """Draw as many clusters of examples as there are, with replacement; one interval per statistic."""
    n_clusters = int(clusters.max()) + 1
    random = np.random.default_rng(seed)
    resampled = statistics(resampled_weights(clusters, n_clusters, random) for _ in range(n_resamples))
    n_groups = min(n_clusters, _JACKKNIFE_GROUPS)
    group = random.permutation(np.arange(n_clusters) % n_groups)[clusters]
    jackknife = statistics((group != g).astype(np.float64) for g in range(n_groups))
    whole = statistics([np.ones(len(clusters))])
    return {
        name: bca_interval(float(whole[name][0]), values, jackknife[name], level=level)
        for name, values in resampled.items()
    }


def resampled_weights(clusters: Integers, n_clusters: int, random: np.random.Generator) -> Floats:
    """How often each example is in one resample of the clusters."""
    times = np.bincount(random.integers(n_clusters, size=n_clusters), minlength=n_clusters)
    return times[clusters].astype(np.float64)


def bootstrap_intervals(
    predictions: Predictions, *, n_resamples: int = 2_000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """One interval per metric, resampling notes with all their examples; none where all are of one note.

    Examples of one note resemble each other, so drawing single examples would give intervals that are too narrow. A
    short form that is not drawn is not in that resample's means.
    """
    if not predictions.cluster.max(initial=0):
        return {}
    found = bca_intervals(
        lambda draws: headline(Tally.stack(tally(predictions, weights) for weights in draws)),
        predictions.cluster,
        n_resamples=n_resamples,
        level=level,
        seed=seed,
    )
    largest = {name: np.inf if name in LOWER_IS_BETTER else 1.0 for name in found}
    return {
        name: replace(each, low=max(each.low, 0.0), high=min(each.high, largest[name]))
        for name, each in found.items()
    }


def paper_intervals(
    predictions: Predictions, *, n_samples: int = 100, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """The paper's bootstrap: percentiles of the metrics over random subsets, each 80 % of the examples."""
    random = np.random.default_rng(seed)
    n = len(predictions)
    subsets = ((random.permutation(n) < round(_PAPER_SHARE * n)).astype(np.float64) for _ in range(n_samples))
    sampled = headline(Tally.stack(tally(predictions, weights) for weights in subsets))
    return {
        name: percentile_interval(float(whole), sampled[name], level=level)
        for name, whole in headline(tally(predictions)).items()
    }
