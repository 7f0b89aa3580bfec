"""Is one model better than another on the same examples, or could it be chance?

`randomisation_test` assumes only that, if neither is better, their answers to a note could be swapped.
`paired_bootstrap` is an interval for the difference. `compare_all` does every pair and corrects for their number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation.intervals import Interval, bca_intervals
from lmcells.evaluation.metrics import Tally, headline, tally
from lmcells.evaluation.predictions import Booleans, Floats, Predictions

METRICS = ("accuracy", "macro_f1", "weighted_f1", "nll")
_ROUNDING = 1e-12  # differences that are equal but for the order of summation count as equal
_ROUNDS_AT_ONCE = 500


@dataclass(frozen=True)
class Comparison:
    """Two models by one metric: first minus second, and how surprising that is if they are equally good.

    `adjusted_p_value` is Holm's, over the pairs that were compared together.
    """

    first: str
    second: str
    metric: str
    difference: float
    interval: Interval
    p_value: float
    adjusted_p_value: float


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
    first: Predictions, second: Predictions, *, n_resamples: int = 2_000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """BCa intervals of first minus second, both measured on the same resampled notes."""
    _require_same_test(first, second)
    if not first.cluster.max():
        raise InputError("An interval needs examples from at least two notes; found 1.")

    def differences(draws: Iterable[Floats]) -> dict[str, Floats]:
        pairs = ((tally(first, weights), tally(second, weights)) for weights in draws)
        found = _difference(*map(Tally.stack, zip(*pairs, strict=True)))
        return {name: found[name] for name in METRICS}

    return bca_intervals(differences, first.cluster, n_resamples=n_resamples, level=level, seed=seed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m is multiplied by m - i + 1, then made monotone."""
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for position, index in enumerate(sorted(range(m), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (m - position) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def compare_all(
    models: Sequence[Predictions], *, n_rounds: int = 10_000, n_resamples: int = 2_000, seed: int = 0
) -> list[Comparison]:
    """Every pair of models by every metric; randomisation p-values, Holm-corrected over the pairs of a metric."""
    pairs = list(combinations(models, 2))
    p_values = [randomisation_test(*pair, n_rounds=n_rounds, seed=seed) for pair in pairs]
    intervals = [paired_bootstrap(*pair, n_resamples=n_resamples, seed=seed) for pair in pairs]
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
    is_same = (
        first.ids == second.ids
        and first.short_forms == second.short_forms
        and first.candidates == second.candidates
        and np.array_equal(first.truth, second.truth)
    )
    if not is_same:
        n_common = len(set(first.ids) & set(second.ids))
        raise InputError(
            f"{first.model} and {second.model} were not evaluated on the same examples and candidates, in one order "
            f"({len(first)} and {len(second)} examples, {n_common} in common). "
            "Evaluate both on one dataset and inventory."
        )
    if not len(first):
        raise InputError(f"{first.model} and {second.model} have no example to be compared on.")
