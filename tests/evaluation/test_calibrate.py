"""Calibration: what is fitted is what was planted, and measures are what they say."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from lmcells.errors import InputError
from lmcells.evaluation import calibrate
from lmcells.expansion.calibration import Calibration


@cache
def planted(n: int, *, temperature: float, seed: int = 0) -> list[calibrate.ScoredMention]:
    """Mentions whose truths are drawn from softmax(scores / temperature)."""
    draw = np.random.default_rng(seed)
    mentions = []
    for number in range(n):
        scores = draw.normal(size=draw.integers(2, 6)) * 4
        probabilities = Calibration(temperature=temperature).probabilities(scores)
        truth = int(draw.choice(scores.size, p=probabilities))
        mentions.append(calibrate.ScoredMention(f"SF{scores.size}-{number % 40}", scores, truth))
    return mentions


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_that_was_planted_is_found(temperature: float) -> None:
    found = calibrate.fit_calibration(planted(2000, temperature=temperature))
    assert found.temperature == pytest.approx(temperature, rel=0.15)


def test_a_calibrated_model_errs_as_often_as_it_says() -> None:
    mentions = planted(2000, temperature=2.0)
    # Here a sense always fits, so "no sense fits" is left out.
    fitted = calibrate.report_calibration(
        mentions, replace(calibrate.fit_calibration(mentions), none_score=None)
    )
    as_it_was = calibrate.report_calibration(mentions, Calibration())
    assert fitted["calibration_error"] < 0.03 < as_it_was["calibration_error"]


def test_answers_are_given_only_where_enough_of_them_are_right() -> None:
    mentions = planted(2000, temperature=2.0)
    calibration = calibrate.fit_calibration(mentions, precision=0.9)
    report = calibrate.report_calibration(mentions, calibration)
    assert report["accuracy"] < 0.85
    assert report["precision"] >= 0.9
    assert 0.3 < report["answered"] < 0.95


def test_mentions_without_their_true_sense_score_less() -> None:
    mentions = planted(2000, temperature=0.5)
    report = calibrate.report_calibration(mentions, Calibration())
    assert report["none_fits_auroc"] is not None
    assert report["none_fits_auroc"] > 0.7


def test_long_forms_that_cannot_be_known_do_not_spoil_the_fit() -> None:
    unknown = [calibrate.ScoredMention("XX", np.array([1.0, -np.inf]), 1)] * 50
    found = calibrate.fit_calibration(planted(2000, temperature=1.0) + unknown)
    assert found.temperature == pytest.approx(1.0, rel=0.15)


def test_too_few_mentions_are_refused() -> None:
    with pytest.raises(InputError, match="at least 100 are needed"):
        calibrate.fit_calibration(planted(99, temperature=1.0))


def test_a_fitted_calibration_survives_the_way_through_a_folder(tmp_path: Path) -> None:
    fitted = calibrate.fit_calibration(planted(500, temperature=1.5))
    fitted.save(tmp_path)
    assert Calibration.load(tmp_path) == fitted


def test_taking_senses_out_leaves_mentions_that_no_sense_fits() -> None:
    mentions = planted(2000, temperature=0.5)
    left = calibrate.take_out(mentions, seed=0)
    assert 0.1 < np.mean([each.truth < 0 for each in left]) < 0.3
    assert [each.truth for each in left] == [each.truth for each in calibrate.take_out(mentions, seed=0)]
    whole = {(each.short_form, *each.scores) for each in mentions}
    for each in left:
        assert each.truth < each.scores.size
        assert each.scores.size > 0
        assert any(each.short_form == name and {*each.scores} <= {*scores} for name, *scores in whole)


def test_no_sense_fits_makes_probabilities_honest_where_senses_are_missing() -> None:
    draw = np.random.default_rng(1)
    mentions = []
    for number in range(1500):  # the true sense fits well, the others do not
        scores = draw.normal(2.0, 1.5, size=3)
        truth = int(draw.integers(3))
        scores[truth] += 8.0
        mentions.append(calibrate.ScoredMention(f"SF{number % 60}", scores, truth))
    fitted = calibrate.fit_calibration(mentions)
    assert fitted.none_score is not None
    assert 3.0 < fitted.none_score < 9.0
    honest = calibrate.report_calibration(mentions, fitted)["calibration_error_without_a_fifth"]
    without = calibrate.report_calibration(mentions, replace(fitted, none_score=None))
    assert honest < 0.05 < without["calibration_error_without_a_fifth"]


answers = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9, 1.0]) | st.floats(0, 1), st.booleans()),
    min_size=1,
    max_size=60,
)


@given(answers)
def test_auroc_is_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    score, positive = zip(*pairs, strict=True)
    if len(set(positive)) == 1:
        assert calibrate.auroc(score, positive) is None
    else:
        assert calibrate.auroc(score, positive) == pytest.approx(roc_auc_score(positive, score))


@given(answers, st.randoms(use_true_random=False))
def test_the_order_of_examples_does_not_matter(pairs: list[tuple[float, bool]], random: Random) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    errors = [calibrate.expected_calibration_error(*zip(*p, strict=True)) for p in (pairs, shuffled)]
    assert errors[0] == pytest.approx(errors[1])


@given(answers)
def test_bins_hold_equal_mass_and_every_example(pairs: list[tuple[float, bool]]) -> None:
    confidence, is_right = zip(*pairs, strict=True)
    points = calibrate.reliability_points(confidence, is_right)
    sizes = [n for _, _, n in points]
    assert sum(sizes) == len(pairs)
    assert max(sizes) - min(sizes) <= 1
    assert len(points) == min(15, len(pairs))
    assert np.average([accuracy for _, accuracy, _ in points], weights=sizes) == pytest.approx(
        np.mean(is_right)
    )
    assert 0 <= calibrate.expected_calibration_error(confidence, is_right) <= 1


@given(answers)
def test_the_coverage_curve_is_what_each_threshold_gives(pairs: list[tuple[float, bool]]) -> None:
    confidence, is_right = (np.array(column) for column in zip(*pairs, strict=True))
    curve = calibrate.coverage_curve(confidence, is_right)
    for threshold, coverage, accuracy in zip(curve.threshold, curve.coverage, curve.accuracy, strict=True):
        answered = confidence >= threshold
        assert coverage == pytest.approx(answered.mean())
        assert accuracy == pytest.approx(is_right[answered].mean())
    assert curve.coverage[-1] == 1.0


def test_probabilities_that_mean_what_they_say_have_almost_no_error() -> None:
    random = np.random.default_rng(0)
    p = random.uniform(0.3, 1.0, size=50_000)
    is_right = random.random(50_000) < p
    assert calibrate.expected_calibration_error(p, is_right) < 0.015
    assert calibrate.expected_calibration_error(np.sqrt(p), is_right) > 0.1


def test_calibration_error_by_hand() -> None:
    found = calibrate.expected_calibration_error([0.6, 0.8, 0.9, 0.9], [False, True, True, False], n_bins=2)
    assert found == pytest.approx((abs(0.5 - 0.7) + abs(0.5 - 0.9)) / 2)


def test_coverage_at_a_precision_by_hand() -> None:
    confidence, is_right = [0.9, 0.8, 0.7, 0.6], [True, False, True, True]
    assert calibrate.coverage_at_precision(confidence, is_right, precision=1.0) == 0.25
    assert calibrate.coverage_at_precision(confidence, is_right, precision=0.75) == 1.0
    assert calibrate.coverage_at_precision([0.9], [False], precision=0.5) == 0.0


def test_equally_sure_answers_are_given_together() -> None:
    assert calibrate.coverage_at_precision([0.9, 0.9], [True, False], precision=1.0) == 0.0


def test_no_example_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one example"):
        calibrate.expected_calibration_error([], [])
    with pytest.raises(InputError, match="at least one example"):
        calibrate.report_calibration([], Calibration())


def test_short_forms_with_one_sense_cannot_show_whether_none_fits() -> None:
    mentions = [calibrate.ScoredMention(f"SF{number}", np.zeros(1), 0) for number in range(10)]
    assert calibrate.report_calibration(mentions, Calibration())["none_fits_auroc"] is None
