"""Confidence intervals of metrics, and tests of whether one model beats another.

`paper_intervals` is the paper's procedure: 100 samples of 80 % of the examples, without replacement. It answers another
question: for a mean over n examples its spread is sqrt((1 - 0.8) / 0.8) = half the standard error. It is here so that
the paper's figure can be drawn; quote `bootstrap_intervals`, which resamples notes.

`compare_all` compares every pair of models on the same examples, and corrects for the number of pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation.metrics import LOWER_IS_BETTER, Tally, headline, tally
from lmcells.evaluation.predictions import Booleans, Floats, Integers, Predictions

LEVEL = 0.95  # of every interval
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


def percentile_interval(estimate: float, resampled: Floats) -> Interval:
    """From the (1 - level)/2 to the (1 + level)/2 quantile of the resampled values."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(estimate, float(low), float(high), LEVEL, float(resampled.std(ddof=1)))


def bca_interval(estimate: float, resampled: Floats, jackknife: Floats) -> Interval:
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

    low, high = np.quantile(resampled, [quantile((1 - LEVEL) / 2), quantile((1 + LEVEL) / 2)]) - bias
    standard_error = float(resampled.std(ddof=1))
    # Where all values are equal, rounding could leave the estimate out.
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), LEVEL, standard_error)


def _skewness(values: Floats) -> float:
    d = values - values.mean()
    variance = float((d**2).mean())
    return float((d**3).mean()) / variance**1.5 if variance > 0 else 0.0


def bca_intervals(
    statistics: Statistics, clusters: Integers, *, n_resamples: int, seed: int
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
        name: bca_interval(float(whole[name][0]), values, jackknife[name])
        for name, values in resampled.items()
    }


def resampled_weights(clusters: Integers, n_clusters: int, random: np.random.Generator) -> Floats:
    """How often each example is in one resample of the clusters."""
    times = np.bincount(random.integers(n_clusters, size=n_clusters), minlength=n_clusters)
    return times[clusters].astype(np.float64)


def bootstrap_intervals(
    predictions: Predictions, *, n_resamples: int = 2_000, seed: int = 0
) -> dict[str, Interval]:
    """One interval per metric, resampling notes with all their examples; none if all are from one note.

    Examples of one note resemble each other, so resampling single examples would give intervals that are too narrow. A
    short form that is not drawn is not in that resample's means.
    """
    if not predictions.cluster.max(initial=0):
        return {}

    def values(draws: Iterable[Floats]) -> dict[str, Floats]:
        return headline(Tally.stack(tally(predictions, weights) for weights in draws))

    found = bca_intervals(values, predictions.cluster, n_resamples=n_resamples, seed=seed)
    largest = {name: np.inf if name in LOWER_IS_BETTER else 1.0 for name in found}
    return {
        name: replace(each, low=max(each.low, 0.0), high=min(each.high, largest[name]))
        for name, each in found.items()
    }


def paper_intervals(predictions: Predictions, *, n_samples: int = 100, seed: int = 0) -> dict[str, Interval]:
    """The paper's bootstrap: percentiles of the metrics over random subsets, each 80 % of the examples."""
    random = np.random.default_rng(seed)
    n = len(predictions)
    subsets = ((random.permutation(n) < round(_PAPER_SHARE * n)).astype(np.float64) for _ in range(n_samples))
    sampled = headline(Tally.stack(tally(predictions, weights) for weights in subsets))
    return {
        name: percentile_interval(float(whole), sampled[name])
        for name, whole in headline(tally(predictions)).items()
    }


METRICS = ("accuracy", "macro_f1", "mean_weighted_f1", "nll")
_ROUNDING = 1e-12  # differences that are equal but for the order of summation count as equal
_ROUNDS_AT_ONCE = 500


@dataclass(frozen=True)
class Comparison:
    """Two models by one metric: first minus second, and how surprising that is if they are equally good."""

    first: str
    second: str
    metric: str
    difference: float
    interval: Interval
    p_value: float
    adjusted_p_value: float  # Holm's, over the pairs that were compared together


def randomisation_test(
    first: Predictions, second: Predictions, *, n_rounds: int = 10_000, seed: int = 0
) -> dict[str, float]:
    """Two-sided p-values of approximate randomisation: in each round the models swap answers to random notes.

    p = (1 + rounds with |difference| at least as large as observed) / (1 + rounds).
    """
    _require_same_test(first, second)
    n_notes = int(first.cluster.max()) + 1
    random = np.random.default_rng(seed)
    observed = _difference(tally(first), tally(second))
    at_least = dict.fromkeys(METRICS, 0)
    for start in range(0, n_rounds, _ROUNDS_AT_ONCE):
        n = min(_ROUNDS_AT_ONCE, n_rounds - start)
        swap = random.integers(2, size=(n, n_notes), dtype=bool)
        swapped = swapped_differences(first, second, swap)
        for name in METRICS:
            at_least[name] += int((np.abs(swapped[name]) >= abs(observed[name]) - _ROUNDING).sum())
    return {name: (1 + count) / (1 + n_rounds) for name, count in at_least.items()}


def paired_bootstrap(
    first: Predictions, second: Predictions, *, n_resamples: int = 2_000, seed: int = 0
) -> dict[str, Interval]:
    """BCa intervals of first minus second, both measured on the same resampled notes."""
    _require_same_test(first, second)
    if not first.cluster.max():
        raise InputError("An interval needs examples from at least two notes; found 1.")

    def differences(draws: Iterable[Floats]) -> dict[str, Floats]:
        pairs = ((tally(first, weights), tally(second, weights)) for weights in draws)
        found = _difference(*map(Tally.stack, zip(*pairs, strict=True)))
        return {name: found[name] for name in METRICS}

    return bca_intervals(differences, first.cluster, n_resamples=n_resamples, seed=seed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m is multiplied by m - i + 1, then made monotone."""
    p = np.array(p_values)
    order = np.argsort(p, kind="stable")
    p[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(p), 0, -1) * p[order]))
    return [float(each) for each in p]


def compare_all(models: Sequence[Predictions], *, n_rounds: int, n_resamples: int) -> list[Comparison]:
    """Every pair of models by every metric; randomisation p-values, Holm-corrected over the pairs of a metric."""
    pairs = list(combinations(models, 2))
    p_values = [randomisation_test(*pair, n_rounds=n_rounds) for pair in pairs]
    intervals = [paired_bootstrap(*pair, n_resamples=n_resamples) for pair in pairs]
    found = []
    for name in METRICS:
        adjusted = holm([of_pair[name] for of_pair in p_values])
        for (a, b), interval, p, adjusted_p in zip(pairs, intervals, p_values, adjusted, strict=True):
            estimate = interval[name].estimate
            found.append(Comparison(a.model, b.model, name, estimate, interval[name], p[name], adjusted_p))
    return found


def swapped_differences(first: Predictions, second: Predictions, swap: Booleans) -> dict[str, Floats]:
    """Differences of all metrics after swapping answers, one row of `swap` (rounds, notes) per round."""
    whole, other = tally(first), tally(second)
    tallies = []
    for row in swap:
        is_swapped = row[first.cluster]
        answers = np.where(is_swapped, second.predicted, first.predicted)
        tallies.append(tally(first, predicted=answers, loss=np.where(is_swapped, second.loss, first.loss)))
    ours = Tally.stack(tallies)
    theirs = replace(  # what one model gains the other loses
        ours,
        predicted=whole.predicted + other.predicted - ours.predicted,
        right=whole.right + other.right - ours.right,
        loss=whole.loss + other.loss - ours.loss,
    )
    return _difference(ours, theirs)


def _difference(first: Tally, second: Tally) -> dict[str, Floats]:
    ours, theirs = headline(first), headline(second)
    return {name: ours[name] - theirs[name] for name in ours}


def _require_same_test(first: Predictions, second: Predictions) -> None:
    same = ("ids", "short_forms", "candidates")
    is_same = all(getattr(first, name) == getattr(second, name) for name in same)
    if not is_same or not np.array_equal(first.truth, second.truth):
        n_common = len(set(first.ids) & set(second.ids))
        raise InputError(
            f"{first.model} and {second.model} were not evaluated on the same examples and candidates in one order "
            f"({len(first)} and {len(second)} examples, {n_common} in common). "
            "Evaluate both on one dataset and inventory."
        )
    if not len(first):
        raise InputError(f"{first.model} and {second.model} have no examples in common to compare.")
