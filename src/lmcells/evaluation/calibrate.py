"""Fitting a calibration to labelled mentions: a temperature, and how sure or how fitting an answer must be.

The mentions are reverse-substituted: long forms in training text, whose short form was put in their place. No acronym
was labelled by anyone.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Booleans
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import Ranker
from lmcells.expansion.windows import Mention

# Do probabilities mean what they say, and what is gained by answering only when sure?
#
# Everything takes `confidence` (the probability of the answer given) and `is_right`, one value an example. Examples with
# equal confidence cannot be told apart, so their order never matters: they share their mean, or stand together.


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


# Fitting a calibration to labelled mentions: a temperature, and how sure or how fitting an answer must be.
#
# The mentions are reverse-substituted: long forms in training text, whose short form was put in their place. No acronym
# was labelled by anyone.


MIN_MENTIONS = 100
_TEMPERATURES = np.geomspace(0.2, 5.0, 161)


@dataclass(frozen=True, slots=True)
class ScoredMention:
    """The scores of a mention's candidates, and which of them is true."""

    scores: Floats
    truth: int

    @property
    def is_known(self) -> bool:
        """Whether the model can know the true long form at all."""
        return bool(np.isfinite(self.scores[self.truth]))

    @property
    def others(self) -> Floats:
        """The scores without the true one: a mention that none of the senses fits."""
        return np.delete(self.scores, self.truth)


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What a calibration achieves on some mentions."""

    n: int
    accuracy: float
    calibration_error: float  # 15 bins of equal mass
    coverage_at_95: float  # the largest share that can be answered with 95 % right
    answered: float  # the share that is, with the calibration's own thresholds
    precision: float  # and how many of those are right
    none_fits_auroc: float | None  # telling mentions whose true sense was taken out from the others

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def score_mentions(
    ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory
) -> list[ScoredMention]:
    """Score the examples whose label is a sense of the inventory."""
    truths = [_truth(example, inventory) for example in examples]
    known = [(example, truth) for example, truth in zip(examples, truths, strict=True) if truth is not None]
    mentions = [Mention(each.text, each.start, each.end, each.short_form, each.section) for each, _ in known]
    scores = ranker.scores(mentions)
    return [ScoredMention(each, truth) for each, (_, truth) in zip(scores, known, strict=True)]


def fit_calibration(
    mentions: Sequence[ScoredMention], *, precision: float = 0.95, rejected: float = 0.005
) -> Calibration:
    """Fit the temperature by likelihood, and the thresholds by what they should achieve on the mentions.

    Answers are given from the least probability on at which a share of `precision` of them is right; an answer that
    fits worse than all but a share of `rejected` of the true ones is not given at all.
    """
    known = [mention for mention in mentions if mention.is_known]
    if len(known) < MIN_MENTIONS:
        raise InputError(
            f"{len(known)} labelled mentions have a long form that the model knows; at least {MIN_MENTIONS} are "
            "needed to calibrate. Give a larger dataset."
        )
    temperature = float(min(_TEMPERATURES, key=lambda each: _negative_log_likelihood(known, float(each))))
    sure, right = _answers(mentions, Calibration(temperature=temperature))
    return Calibration(
        temperature=temperature,
        least_probability=_least_probability(sure, right, precision=precision),
        least_score=float(np.quantile([mention.scores[mention.truth] for mention in known], rejected)),
    )


def report_calibration(mentions: Sequence[ScoredMention], calibration: Calibration) -> CalibrationReport:
    """Measure what a calibration achieves."""
    sure, right = _answers(mentions, calibration)
    given = np.array(
        [
            calibration.reason_to_abstain(each.scores, calibration.probabilities(each.scores)) is None
            for each in mentions
        ]
    )
    several = [mention for mention in mentions if mention.scores.size > 1]
    best = [float(mention.scores.max()) for mention in several]
    without = [float(mention.others.max()) for mention in several]
    return CalibrationReport(
        n=len(mentions),
        accuracy=float(right.mean()),
        calibration_error=expected_calibration_error(sure, right),
        coverage_at_95=coverage_at_precision(sure, right, precision=0.95),
        answered=float(given.mean()),
        precision=float(right[given].mean()) if given.any() else 0.0,
        none_fits_auroc=auroc([*best, *without], [True] * len(best) + [False] * len(without)),
    )


def _truth(example: Example, inventory: SenseInventory) -> int | None:
    if example.short_form not in inventory:
        return None
    long_forms = [sense.long_form for sense in inventory.senses(example.short_form)]
    return long_forms.index(example.long_form) if example.long_form in long_forms else None


def _answers(
    mentions: Sequence[ScoredMention], calibration: Calibration
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """How sure the best candidate of each mention is, and whether it is right."""
    probabilities = [calibration.probabilities(mention.scores) for mention in mentions]
    sure = np.array([float(each.max()) for each in probabilities])
    right = [
        int(each.argmax()) == mention.truth for each, mention in zip(probabilities, mentions, strict=True)
    ]
    return sure, np.array(right)


def _negative_log_likelihood(mentions: Sequence[ScoredMention], temperature: float) -> float:
    total = 0.0
    for mention in mentions:
        scores = mention.scores[np.isfinite(mention.scores)] / temperature
        total += float(np.logaddexp.reduce(scores)) - float(mention.scores[mention.truth]) / temperature
    return total


def _least_probability(sure: Floats, right: npt.NDArray[np.bool_], *, precision: float) -> float:
    """The least probability from which on answers are right often enough; 1 where they never are."""
    order = np.argsort(-sure, kind="stable")
    share_right = np.cumsum(right[order]) / np.arange(1, order.size + 1)
    enough = np.flatnonzero(share_right >= precision)
    return float(sure[order][enough[-1]]) if enough.size else 1.0
