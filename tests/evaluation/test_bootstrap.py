import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from lmcells.errors import InputError
from lmcells.evaluation.intervals import (
    Method,
    bca_interval,
    bootstrap_intervals,
    paper_intervals,
    percentile_interval,
)
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.predictions import Predictions


def _answers_right_by_note(random: np.random.Generator, *, n_notes: int, per_note: int) -> Predictions:
    """Notes differ in difficulty: right with a probability that is uniform over [0.4, 1], so 0.7 on average."""
    chance = np.repeat(random.uniform(0.4, 1.0, size=n_notes), per_note)
    is_wrong = random.random(n_notes * per_note) > chance
    truth = random.integers(2, size=n_notes * per_note)
    answers = [("AB", int(t), int(t) ^ int(w)) for t, w in zip(truth, is_wrong, strict=True)]
    return predictions_from_answers(
        answers, {"AB": 2}, notes=[f"n{i // per_note}" for i in range(len(answers))]
    )


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(method: Method) -> None:
    random = np.random.default_rng(5)
    n_trials = 200
    covered = 0
    for trial in range(n_trials):
        sample = _answers_right_by_note(random, n_notes=50, per_note=4)
        found = bootstrap_intervals(sample, method=method, n_resamples=300, level=0.9, seed=trial)["accuracy"]
        covered += found.low <= 0.7 <= found.high
    assert covered / n_trials == pytest.approx(0.9, abs=0.06)


def test_the_bca_interval_of_a_mean_is_scipys() -> None:
    sample = random_predictions(1, n=40, skill=3.0)
    ours = bootstrap_intervals(sample, n_resamples=20_000, by_note=False)["nll"]
    loss = -sample.log_probability_of_truth
    theirs = scipy_bootstrap((loss,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(1))
    width = ours.high - ours.low
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.03 * width)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.03)


def test_the_bias_corrected_interval_is_shifted_by_the_formula() -> None:
    resampled = np.arange(1000) / 1000
    balanced = bca_interval(0.4995, resampled, np.array([1.0, 2.0, 3.0]), level=0.9)
    plain = percentile_interval(0.4995, resampled, level=0.9)
    assert (balanced.low, balanced.high) == pytest.approx((plain.low, plain.high))
    # 16 % below the estimate: z0 = -0.994, so the ends are Phi(2 z0 -+ 1.645).
    shifted = bca_interval(0.1595, resampled, np.array([1.0, 2.0, 3.0]), level=0.9)
    assert (shifted.low, shifted.high) == pytest.approx((0.0001, 0.3655), abs=0.001)


def test_drawing_notes_is_wider_than_drawing_examples_when_notes_differ() -> None:
    sample = _answers_right_by_note(np.random.default_rng(0), n_notes=40, per_note=25)
    by_note = bootstrap_intervals(sample, n_resamples=500)["accuracy"].standard_error
    by_example = bootstrap_intervals(sample, n_resamples=500, by_note=False)["accuracy"].standard_error
    assert by_note > 1.5 * by_example


def test_the_papers_samples_spread_half_as_far_as_the_standard_error() -> None:
    sample = random_predictions(2, n=1_000)
    spread = paper_intervals(sample, n_samples=1_000)["accuracy"].standard_error
    p = measure(sample).accuracy
    assert spread == pytest.approx(0.5 * np.sqrt(p * (1 - p) / 1_000), rel=0.1)


def test_estimates_are_the_metrics_of_the_whole_dataset() -> None:
    sample = random_predictions(4)
    expected = measure(sample)
    for intervals in (bootstrap_intervals(sample, n_resamples=100), paper_intervals(sample)):
        for name, interval in intervals.items():
            assert interval.estimate == pytest.approx(getattr(expected, name))
            assert interval.low <= interval.high


def test_the_seed_decides() -> None:
    sample = random_predictions(6, n_notes=20)
    for function in (bootstrap_intervals, paper_intervals):
        assert function(sample, seed=1) == function(sample, seed=1)
        assert function(sample, seed=1) != function(sample, seed=2)


def test_a_model_that_is_always_right_has_an_interval_of_one_point() -> None:
    sample = predictions_from_answers([("AB", i % 2, i % 2) for i in range(20)], {"AB": 2})
    for method in ("bca", "percentile"):
        found = bootstrap_intervals(sample, n_resamples=50, method=method)["macro_f1"]
        assert (found.low, found.high) == (1.0, 1.0)


def test_short_forms_that_are_not_drawn_leave_no_nan() -> None:
    answers = [("AB", 0, 0)] * 3 + [("CD", 1, 1)] + [("EF", 0, 1)] * 2
    sample = predictions_from_answers(answers, {"AB": 2, "CD": 2, "EF": 2})
    for interval in bootstrap_intervals(sample, n_resamples=200).values():
        assert np.isfinite([interval.low, interval.high, interval.standard_error]).all()


def test_one_note_alone_has_no_interval() -> None:
    sample = predictions_from_answers([("AB", 0, 0), ("AB", 1, 0)], {"AB": 2}, notes=["n", "n"])
    with pytest.raises(InputError, match="at least two notes; found 1"):
        bootstrap_intervals(sample)
