"""Do probabilities mean what they say, and what is gained by answering only when sure?

`fit_calibration` fits a temperature and two thresholds to reverse-substituted mentions: long forms in training text,
replaced by their short form. Nobody labels anything.

Measures take `confidence` (the probability of the answer given) and `is_right`, one value per example. Examples with
equal confidence cannot be told apart, so their order never matters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Booleans, Floats
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.ranking import Ranker

ScoredMention = tuple[Floats, int]  # the scores of its candidates, and which of them is true

MIN_MENTIONS = 100
_TEMPERATURES = np.geomspace(0.2, 5.0, 161)


class CoverageCurve(NamedTuple):
    """Answering only when `confidence >= threshold`: the share of examples answered, and the share of those right.

    One point per distinct confidence, from the most confident alone to all examples.
    """

    threshold: Floats
    coverage: Floats
    accuracy: Floats


def reliability_points(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 15
) -> list[tuple[float, float, int]]:
    """Mean confidence, share that is right, and size of equal-mass bins, least confident first.

    There are fewer than `n_bins` where there are fewer examples.
    """
    p, right = _pair(confidence, is_right)
    _, group, size = np.unique(p, return_inverse=True, return_counts=True)
    shared = (np.bincount(group, right) / size)[group]
    order = np.argsort(p, kind="stable")
    bins = (chunk for chunk in np.array_split(order, n_bins) if len(chunk))
    return [(float(p[b].mean()), float(shared[b].mean()), len(b)) for b in bins]


def expected_calibration_error(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 15
) -> float:
    """ECE = sum over equal-mass bins of n_b / n |accuracy_b - confidence_b|."""
    points = reliability_points(confidence, is_right, n_bins=n_bins)
    total = sum(n for _, _, n in points)
    return sum(n / total * abs(accuracy - mean) for mean, accuracy, n in points)


def coverage_curve(confidence: npt.ArrayLike, is_right: npt.ArrayLike) -> CoverageCurve:
    """Coverage and accuracy at every threshold."""
    p, right = _pair(confidence, is_right)
    threshold, group, size = np.unique(-p, return_inverse=True, return_counts=True)  # most confident first
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
    if not numbers.size:
        raise InputError("Calibration needs at least one example; found none.")
    if np.isnan(numbers).any():
        raise ValueError("a confidence is NaN")
    return numbers, truths


def score_mentions(
    ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory
) -> list[ScoredMention]:
    """Score the examples whose label is a sense of the inventory."""
    long_forms = {
        short_form: [sense.long_form for sense in inventory.senses(short_form)]
        for short_form in inventory.short_forms
    }
    known = [each for each in examples if each.long_form in long_forms.get(each.short_form, ())]
    truths = [long_forms[example.short_form].index(example.long_form) for example in known]
    return list(zip(ranker.scores([example.mention for example in known]), truths, strict=True))


def fit_calibration(
    mentions: Sequence[ScoredMention], *, precision: float = 0.95, rejected: float = 0.005
) -> Calibration:
    """Fit the temperature by likelihood, and the thresholds by what they should achieve on the mentions.

    The probability threshold is the lowest at which a share of `precision` of the answers is right; the score threshold
    rejects answers that fit worse than all but a share of `rejected` of the true ones.
    """
    known = [(scores, truth) for scores, truth in mentions if np.isfinite(scores[truth])]
    if len(known) < MIN_MENTIONS:
        raise InputError(
            f"{len(known)} labelled mentions have a long form that the model knows; at least {MIN_MENTIONS} are "
            "needed to calibrate. Give a larger dataset."
        )
    padded = np.full((len(known), max(scores.size for scores, _ in known)), -np.inf)
    for row, (scores, _) in zip(padded, known, strict=True):
        row[: scores.size] = scores
    of_truth = np.array([scores[truth] for scores, truth in known])

    def negative_log_likelihood(temperature: float) -> float:
        return float((np.logaddexp.reduce(padded / temperature, axis=1) - of_truth / temperature).sum())

    temperature = min(_TEMPERATURES.tolist(), key=negative_log_likelihood)
    curve = coverage_curve(*_answers(mentions, Calibration(temperature=temperature)))
    return Calibration(
        temperature=temperature,
        least_probability=float(curve.threshold.min(where=curve.accuracy >= precision, initial=1.0)),
        least_score=float(np.quantile(of_truth, rejected)),
    )


def report_calibration(
    mentions: Sequence[ScoredMention], calibration: Calibration
) -> dict[str, int | float | None]:
    """Measure what a calibration achieves, by the names of the measures in `lmcells calibrate --json`."""
    sure, right = _answers(mentions, calibration)
    given = np.array([calibration.judge(scores)[1] is None for scores, _ in mentions])
    several = [(scores, truth) for scores, truth in mentions if scores.size > 1]
    best = [float(scores.max()) for scores, _ in several]
    without_truth = [float(np.delete(scores, truth).max()) for scores, truth in several]
    return {
        "n": len(mentions),
        "accuracy": float(right.mean()),
        "calibration_error": expected_calibration_error(sure, right),  # 15 bins of equal mass
        "coverage_at_95": coverage_at_precision(sure, right, precision=0.95),
        "answered": float(given.mean()),  # with the calibration's own thresholds
        "precision": float(right[given].mean()) if given.any() else 0.0,  # of those answered
        # Telling mentions whose true sense was taken out from the others:
        "none_fits_auroc": auroc([*best, *without_truth], [True] * len(best) + [False] * len(without_truth)),
    }


def _answers(mentions: Sequence[ScoredMention], calibration: Calibration) -> tuple[Floats, Booleans]:
    """The probability of each mention's best candidate, and whether it is right."""
    found = [(np.array(calibration.judge(scores)[0]), truth) for scores, truth in mentions]
    return np.array([p.max() for p, _ in found]), np.array([int(p.argmax()) == truth for p, truth in found])
