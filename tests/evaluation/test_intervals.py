from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import kstest

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from lmcells.errors import InputError
from lmcells.evaluation import intervals
from lmcells.evaluation.intervals import (
    METRICS,
    compare_all,
    holm,
    paired_bootstrap,
    randomisation_test,
    swapped_differences,
)
from lmcells.evaluation.metrics import headline, measure, tally
from lmcells.evaluation.predictions import Predictions


def right_by_note(
    random: np.random.Generator, *, n_notes: int, per_note: int, one_note_each: bool = False
) -> Predictions:
    """Notes differ in difficulty: right with a probability that is uniform over [0.4, 1], so 0.7 on average."""
    n = n_notes * per_note
    chance = np.repeat(random.uniform(0.4, 1.0, size=n_notes), per_note)
    truth = random.integers(2, size=n)
    predicted = truth ^ (random.random(n) > chance)
    notes = None if one_note_each else [f"n{i // per_note}" for i in range(n)]
    answers = [("AB", int(t), int(p)) for t, p in zip(truth, predicted, strict=True)]
    return predictions_from_answers(answers, {"AB": 2}, notes=notes)


def test_intervals_cover_the_truth_about_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "LEVEL", 0.8)
    random = np.random.default_rng(5)
    n_covered = 0
    for trial in range(100):
        sample = right_by_note(random, n_notes=20, per_note=5)
        found = intervals.bootstrap_intervals(sample, n_resamples=100, seed=trial)["accuracy"]
        n_covered += found.low <= 0.7 <= found.high
    assert n_covered / 100 == pytest.approx(0.8, abs=0.08)


def test_rare_senses_do_not_push_macro_f1_out_of_its_interval() -> None:
    """A resample lacks some of the rare senses, so that the macro F1 of always answering the most common is higher."""
    truths = [0] * 6 + [1, 2, 3, 4]
    answers = [(f"S{s}", truth, 0) for s in range(8) for truth in truths]
    sample = predictions_from_answers(answers, {f"S{s}": 5 for s in range(8)})
    found = intervals.bootstrap_intervals(sample, n_resamples=300)["macro_f1"]
    assert found.estimate == measure(sample).macro_f1
    assert found.low + found.standard_error < found.estimate < found.high - found.standard_error


def test_the_interval_of_a_mean_is_scipys_bca() -> None:
    sample = random_predictions(1, n=40, skill=3.0)
    ours = intervals.bootstrap_intervals(sample, n_resamples=10_000)["nll"]
    loss = -sample.log_probability_of_truth
    theirs = scipy_bootstrap((loss,), np.mean, n_resamples=10_000, method="BCa", rng=np.random.default_rng(1))
    width = ours.high - ours.low
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.04 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.04 * width)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.04)


def test_symmetric_values_have_the_percentiles_moved_to_the_estimate() -> None:
    resampled = np.arange(1000) / 1000
    moved = intervals.bca_interval(0.2, resampled, np.array([1.0, 2.0, 3.0]))
    plain = intervals.percentile_interval(0.2, resampled)
    assert (moved.low, moved.high) == pytest.approx((plain.low - 0.2995, plain.high - 0.2995))
    assert moved.standard_error == plain.standard_error


def test_drawing_notes_is_wider_than_drawing_examples_when_notes_differ() -> None:
    by_note, by_example = (
        right_by_note(np.random.default_rng(0), n_notes=40, per_note=25, one_note_each=alone)
        for alone in (False, True)
    )
    wide, narrow = (
        intervals.bootstrap_intervals(sample, n_resamples=300)["accuracy"].standard_error
        for sample in (by_note, by_example)
    )
    assert wide > 1.5 * narrow


def test_the_papers_samples_spread_half_as_far_as_the_standard_error() -> None:
    sample = random_predictions(2, n=1_000)
    spread = intervals.paper_intervals(sample, n_samples=600)["accuracy"].standard_error
    p = measure(sample).accuracy
    assert spread == pytest.approx(0.5 * np.sqrt(p * (1 - p) / 1_000), rel=0.1)


def test_estimates_are_the_metrics_of_the_whole_dataset_and_within_their_intervals() -> None:
    sample = random_predictions(4)
    expected = measure(sample)
    for name, interval in intervals.bootstrap_intervals(sample, n_resamples=100).items():
        assert interval.low <= interval.estimate <= interval.high
        assert interval.estimate == pytest.approx(getattr(expected, name))
        assert intervals.paper_intervals(sample)[name].estimate == interval.estimate


def test_intervals_stay_within_what_a_metric_can_be() -> None:
    answers = [("AB", i % 2, i % 2) for i in range(11)] + [("AB", 0, 1)]
    sample = predictions_from_answers(answers, {"AB": 2})
    for name, interval in intervals.bootstrap_intervals(sample, n_resamples=200).items():
        assert interval.low >= 0
        assert interval.high <= 1 or name.endswith("nll")


def test_the_seed_decides() -> None:
    sample = random_predictions(6, n_notes=20)
    once, again, other = (
        intervals.bootstrap_intervals(sample, n_resamples=50, seed=seed) for seed in (1, 1, 2)
    )
    assert once == again != other
    once, again, other = (intervals.paper_intervals(sample, seed=seed) for seed in (1, 1, 2))
    assert once == again != other


def test_a_model_that_is_always_right_has_an_interval_of_one_point() -> None:
    sample = predictions_from_answers([("AB", i % 2, i % 2) for i in range(20)], {"AB": 2})
    found = intervals.bootstrap_intervals(sample, n_resamples=50)["macro_f1"]
    assert (found.low, found.high) == (1.0, 1.0)


def test_short_forms_that_are_not_drawn_leave_no_nan() -> None:
    answers = [("AB", 0, 0)] * 3 + [("CD", 1, 1)] + [("EF", 0, 1)] * 2
    sample = predictions_from_answers(answers, {"AB": 2, "CD": 2, "EF": 2})
    for interval in intervals.bootstrap_intervals(sample, n_resamples=200).values():
        assert np.isfinite([interval.low, interval.high, interval.standard_error]).all()


def test_one_note_alone_has_no_interval() -> None:
    sample = predictions_from_answers([("AB", 0, 0), ("AB", 1, 0)], {"AB": 2}, notes=["n", "n"])
    assert intervals.bootstrap_intervals(sample) == {}


def _right(pattern: str, *, model: str = "m", notes: list[str] | None = None) -> Predictions:
    """Senses alternate; "+" is right and "-" is wrong."""
    answers = [("AB", i % 2, i % 2 if sign == "+" else 1 - i % 2) for i, sign in enumerate(pattern)]
    return predictions_from_answers(answers, {"AB": 2}, model=model, notes=notes)


def test_p_values_of_equal_models_are_uniform() -> None:
    found: dict[str, list[float]] = {name: [] for name in METRICS}
    for trial in range(100):
        a, b = (random_predictions(s, n=150, n_notes=50, test_set=trial) for s in (2 * trial, 2 * trial + 1))
        for name, p in randomisation_test(a, b, n_rounds=99, seed=trial).items():
            found[name].append(p)
    for name in ("macro_f1", "nll"):
        assert kstest(found[name], "uniform").pvalue > 0.01
    # Accuracy takes few values, so its p-values are lumpy and err towards caution; they must not err the other way.
    assert np.mean(np.array(found["accuracy"]) <= 0.1) == pytest.approx(0.1, abs=0.06)


def test_p_values_ignoring_notes_are_too_small_when_notes_decide() -> None:
    n_small = {"by note": 0, "by example": 0}
    random = np.random.default_rng(3)
    for trial in range(40):
        signs_a, signs_b = ("".join(c * 10 for c in random.choice(["+", "-"], size=20)) for _ in range(2))
        for how, notes in (("by note", [f"n{i // 10}" for i in range(200)]), ("by example", None)):
            a, b = _right(signs_a, notes=notes), _right(signs_b, notes=notes)
            p = randomisation_test(a, b, n_rounds=99, seed=trial)
            n_small[how] += p["accuracy"] <= 0.05
    assert n_small["by note"] <= 6
    assert n_small["by example"] >= 13


def test_a_better_model_is_found_to_be_better() -> None:
    a, b = (random_predictions(s, n=400, skill=skill, test_set=0) for s, skill in [(1, 2.0), (2, 1.0)])
    p_values = randomisation_test(a, b, n_rounds=500)
    found = paired_bootstrap(a, b, n_resamples=500)
    for name in ("accuracy", "macro_f1", "mean_weighted_f1"):
        assert p_values[name] < 0.01
        assert found[name].low > 0
        assert found[name].estimate == pytest.approx(getattr(measure(a), name) - getattr(measure(b), name))
    assert found["nll"].high < 0


def test_swapping_all_answers_turns_the_difference_around_and_swapping_one_note_moves_its_answers() -> None:
    a, b = (random_predictions(s, n_notes=15, test_set=0) for s in (1, 2))
    n_notes = int(a.cluster.max()) + 1
    swap = np.vstack([np.zeros(n_notes, bool), np.ones(n_notes, bool), np.arange(n_notes) == 3])
    found = swapped_differences(a, b, swap)
    one_note = (a.cluster == 3)[:, None]
    first, second = (
        headline(tally(replace(one, log_probabilities=np.where(one_note, other.log_probabilities, p))))
        for one, other, p in ((a, b, a.log_probabilities), (b, a, b.log_probabilities))
    )
    whole_a, whole_b = headline(tally(a)), headline(tally(b))
    for name, values in found.items():
        difference = whole_a[name] - whole_b[name]
        assert values == pytest.approx([difference, -difference, first[name] - second[name]])


def test_intervals_of_the_difference_cover_zero_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "LEVEL", 0.9)
    covered = 0
    for trial in range(60):
        a, b = (random_predictions(s, n=80, test_set=trial) for s in (2 * trial, 2 * trial + 1))
        interval = paired_bootstrap(a, b, n_resamples=100, seed=trial)["accuracy"]
        covered += interval.low <= 0 <= interval.high
    assert covered / 60 == pytest.approx(0.9, abs=0.09)


def test_a_model_compared_with_itself_is_not_different() -> None:
    a = random_predictions(1)
    assert set(randomisation_test(a, a, n_rounds=50).values()) == {1.0}
    assert paired_bootstrap(a, a, n_resamples=50)["macro_f1"].high == 0.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_all_pairs_are_compared_and_corrected_within_a_metric() -> None:
    models = [random_predictions(s, skill=s, model=f"m{s}", test_set=0) for s in (0, 1, 2)]
    found = compare_all(models, n_rounds=100, n_resamples=50)
    pairs = [(c.first, c.second) for c in found if c.metric == "macro_f1"]
    assert pairs == [("m0", "m1"), ("m0", "m2"), ("m1", "m2")]
    for metric in ("accuracy", "macro_f1"):
        of_metric = [c for c in found if c.metric == metric]
        assert [c.adjusted_p_value for c in of_metric] == holm([c.p_value for c in of_metric])
    assert found == compare_all(models, n_rounds=100, n_resamples=50)


def test_models_tested_on_different_examples_are_not_compared() -> None:
    with pytest.raises(InputError, match="3 and 2 examples, 2 in common"):
        paired_bootstrap(_right("++-"), _right("++"))


def test_a_difference_on_one_note_alone_has_no_interval() -> None:
    with pytest.raises(InputError, match="at least two notes; found 1"):
        paired_bootstrap(_right("+-", notes=["n", "n"]), _right("--", notes=["n", "n"]))
