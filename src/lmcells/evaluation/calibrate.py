"""Calibration: do probabilities match accuracy, and what is gained by answering only when sure?

Calibrations are fitted to reverse-substituted mentions: long forms in training text, replaced by their short form, so
no labels are needed. Measures take `confidence` (the probability of the answer given) and `is_right`, one value per
example. Examples with equal confidence are grouped, so their order never matters.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Booleans, Floats, candidates_of
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.ranking import Ranker

MIN_MENTIONS = 100
TAKEN_OUT = 0.2  # share of all senses that is removed, to measure mentions that no sense fits
DRAWS = 5
_NONE = -1
_TEMPERATURES = np.geomspace(0.2, 5.0, 161)
_NONE_QUANTILES = np.linspace(0.0, 0.5, 101)  # of the scores of true senses


class ScoredMention(NamedTuple):
    """The scores of a mention's candidates, and the index of the true one; -1 if none is true."""

    short_form: str
    scores: Floats
    truth: int


class CoverageCurve(NamedTuple):
    """Answering only when `confidence >= threshold`: one point per distinct confidence, the most confident first."""

    threshold: Floats
    coverage: Floats
    accuracy: Floats


def reliability_points(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 15
) -> list[tuple[float, float, int]]:
    """Mean confidence, share that is right, and size of up to `n_bins` equal-mass bins, least confident first."""
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
    p, right = _pair(confidence, is_right)
    threshold, group, size = np.unique(-p, return_inverse=True, return_counts=True)  # most confident first
    answered = np.cumsum(size)
    return CoverageCurve(-threshold, answered / len(p), np.cumsum(np.bincount(group, right)) / answered)


def coverage_at_precision(confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, precision: float) -> float:
    """The largest share of examples that a threshold can answer at this accuracy or better; 0 if there is none."""
    curve = coverage_curve(confidence, is_right)
    return float(curve.coverage.max(where=curve.accuracy >= precision, initial=0.0))


def auroc(score: npt.ArrayLike, is_positive: npt.ArrayLike) -> float | None:
    """P(score of a positive > score of a negative), equal ones half; None when one kind is missing.

    Mann-Whitney: (sum of the positives' mid-ranks - n_pos (n_pos + 1) / 2) / (n_pos n_neg).
    """
    values, positive = np.asarray(score, np.float64), np.asarray(is_positive, bool)
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
    return numbers, truths


def score_mentions(
    ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory
) -> list[ScoredMention]:
    """Score the examples whose label is a sense of the inventory."""
    long_forms = candidates_of(inventory)
    known = [each for each in examples if each.long_form in long_forms.get(each.short_form, ())]
    scores = ranker.scores([example.mention for example in known])
    return [
        ScoredMention(each.short_form, of_senses, long_forms[each.short_form].index(each.long_form))
        for each, of_senses in zip(known, scores, strict=True)
    ]


def take_out(mentions: Sequence[ScoredMention], *, seed: int) -> list[ScoredMention]:
    """Remove a fifth of all senses at random, and the mentions that have no candidate left."""
    sizes = {mention.short_form: mention.scores.size for mention in mentions}
    senses = [(short_form, index) for short_form in sorted(sizes) for index in range(sizes[short_form])]
    taken = set(random.Random(seed).sample(senses, round(TAKEN_OUT * len(senses))))
    left = []
    for short_form, scores, truth in mentions:
        kept = [index for index in range(scores.size) if (short_form, index) not in taken]
        if kept:
            still = kept.index(truth) if truth in kept else _NONE
            left.append(ScoredMention(short_form, scores[kept], still))
    return left


def fit_calibration(mentions: Sequence[ScoredMention], *, precision: float = 0.95) -> Calibration:
    """Fit the temperature and the score of "no sense fits" by likelihood, and the threshold by the desired precision.

    The score of none is fitted to the mentions with all senses and with senses removed, in equal parts; the threshold
    is the lowest at which a share of `precision` of the answers is right.
    """
    known = [mention for mention in mentions if np.isfinite(mention.scores[mention.truth])]
    if len(known) < MIN_MENTIONS:
        raise InputError(
            f"{len(known)} labelled mentions have a long form that the model knows; at least {MIN_MENTIONS} are "
            "needed to calibrate. Give a larger dataset."
        )
    scores, truths = _table(known)
    of_truth = scores[truths]
    temperature = min(_TEMPERATURES.tolist(), key=lambda each: _surprise(scores / each, of_truth / each))
    draws = [*known * DRAWS, *(each for seed in range(DRAWS) for each in take_out(known, seed=seed))]

    drawn, truths_drawn = _table(draws)

    def surprise_with_none(none: float) -> float:
        drawn[:, _NONE] = none
        return _surprise(drawn / temperature, drawn[truths_drawn] / temperature)

    none = min(np.quantile(of_truth, _NONE_QUANTILES).tolist(), key=surprise_with_none)
    curve = coverage_curve(*_answers(mentions, Calibration(temperature=temperature, none_score=none)))
    least = float(curve.threshold.min(where=curve.accuracy >= precision, initial=1.0))
    return Calibration(temperature=temperature, least_probability=least, none_score=none)


def _table(mentions: Sequence[ScoredMention]) -> tuple[Floats, tuple[npt.NDArray[np.intp], list[int]]]:
    """Return the scores of all candidates, with a last column for none, and a mask of the true ones: (n, K + 1)."""
    table = np.full((len(mentions), max(each.scores.size for each in mentions) + 1), -np.inf)
    for row, mention in zip(table, mentions, strict=True):
        row[: mention.scores.size] = mention.scores
    return table, (np.arange(len(table)), [mention.truth for mention in mentions])


def _surprise(scores: Floats, of_truth: Floats) -> float:
    """Return the negative log-likelihood of the true candidates."""
    return float((np.logaddexp.reduce(scores, axis=1) - of_truth).sum())


def report_calibration(
    mentions: Sequence[ScoredMention], calibration: Calibration
) -> dict[str, int | float | None]:
    """Measure a calibration; names as in `lmcells calibrate --json`."""
    sure, right = _answers(mentions, calibration)
    error = expected_calibration_error(sure, right)  # refuses no mentions at all
    given = np.array([calibration.judge(mention.scores)[1] is None for mention in mentions])
    several = [mention for mention in mentions if mention.scores.size > 1]
    best = [float(mention.scores.max()) for mention in several]
    without_truth = [float(np.delete(mention.scores, mention.truth).max()) for mention in several]
    errors = [
        expected_calibration_error(*_answers(left, calibration))
        for left in (take_out(mentions, seed=seed) for seed in range(DRAWS))
        if left
    ]
    return {
        "n": len(mentions),
        "accuracy": float(right.mean()),
        "calibration_error": error,  # 15 bins of equal mass
        # With a fifth of all senses removed, so that any answer to their mentions is wrong; mean of five draws:
        "calibration_error_without_a_fifth": float(np.mean(errors)) if errors else None,
        "coverage_at_95": coverage_at_precision(sure, right, precision=0.95),
        "answered": float(given.mean()),  # with the calibration's own thresholds
        "precision": float(right[given].mean()) if given.any() else 0.0,  # of those answered
        # Detecting mentions whose true sense was removed:
        "none_fits_auroc": auroc([*best, *without_truth], [True] * len(best) + [False] * len(without_truth)),
    }


def _answers(mentions: Sequence[ScoredMention], calibration: Calibration) -> tuple[Floats, Booleans]:
    """The probability of each mention's best candidate, and whether it is right."""
    found = [np.array(calibration.judge(mention.scores)[0]) for mention in mentions]
    right = [int(p.argmax()) == mention.truth for p, mention in zip(found, mentions, strict=True)]
    return np.array([p.max() for p in found]), np.array(right)
