"""Do probabilities mean what they say, and what is gained by answering only when sure?

Everything takes `confidence` (the probability of the answer given) and `is_right`, one value an example. Examples with
equal confidence cannot be told apart, so their order never matters: they share their mean, or stand together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.evaluation.predictions import Booleans, Floats


@dataclass(frozen=True)
class ReliabilityPoint:
    """A bin of a reliability diagram: mean confidence against the share that is right."""

    confidence: float
    accuracy: float
    n: int


@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """Answering only when `confidence >= threshold`: the share of examples answered, and the share of those right.

    One point a distinct confidence, from the surest alone to all examples.
    """

    threshold: Floats
    coverage: Floats
    accuracy: Floats


def reliability_points(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 15
) -> list[ReliabilityPoint]:
    """Equal-mass bins, least confident first; fewer bins than asked for when there are fewer examples."""
    p, right = _pair(confidence, is_right)
    _, group, size = np.unique(p, return_inverse=True, return_counts=True)
    shared = (np.bincount(group, right) / size)[group]
    order = np.argsort(p, kind="stable")
    bins = (chunk for chunk in np.array_split(order, n_bins) if len(chunk))
    return [ReliabilityPoint(float(p[b].mean()), float(shared[b].mean()), len(b)) for b in bins]


def expected_calibration_error(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 15
) -> float:
    """ECE = sum over equal-mass bins of n_b / n |accuracy_b - confidence_b|."""
    points = reliability_points(confidence, is_right, n_bins=n_bins)
    total = sum(point.n for point in points)
    return sum(point.n / total * abs(point.accuracy - point.confidence) for point in points)


def coverage_curve(confidence: npt.ArrayLike, is_right: npt.ArrayLike) -> CoverageCurve:
    """Coverage and accuracy at every threshold."""
    p, right = _pair(confidence, is_right)
    threshold, group, size = np.unique(-p, return_inverse=True, return_counts=True)  # surest first
    answered = np.cumsum(size)
    return CoverageCurve(-threshold, answered / len(p), np.cumsum(np.bincount(group, right)) / answered)


def coverage_at_precision(confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, precision: float) -> float:
    """The largest share of examples that one threshold answers with at least this accuracy; 0 when none does."""
    curve = coverage_curve(confidence, is_right)
    return float(curve.coverage.max(where=curve.accuracy >= precision, initial=0.0))


def auroc(score: npt.ArrayLike, is_positive: npt.ArrayLike) -> float | None:
    """P(score of a positive > score of a negative), equal ones half; None when one kind is missing.

    Mann-Whitney: (sum of the positives' mid-ranks - n_pos (n_pos + 1) / 2) / (n_pos n_neg).
    """
    values, positive = _pair(score, is_positive)
    n_positive = int(positive.sum())
    n_negative = len(values) - n_positive
    if not n_positive or not n_negative:
        return None
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    mid_rank = np.cumsum(size) - (size - 1) / 2  # of each distinct value, from 1
    above = mid_rank[group][positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


def _pair(values: npt.ArrayLike, flags: npt.ArrayLike) -> tuple[Floats, Booleans]:
    numbers, truths = np.asarray(values, dtype=np.float64), np.asarray(flags, dtype=bool)
    if numbers.ndim != 1 or numbers.shape != truths.shape:
        raise ValueError(f"expected two rows of one length, found shapes {numbers.shape} and {truths.shape}")
    if not numbers.size:
        raise InputError("Calibration needs at least one example; found none.")
    if np.isnan(numbers).any():
        raise ValueError("a confidence is NaN")
    return numbers, truths
