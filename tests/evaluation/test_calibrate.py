"""Calibration: what is fitted is what was planted, and the report says what it achieves."""

from pathlib import Path

import numpy as np
import pytest

from lmcells.errors import InputError
from lmcells.evaluation.calibrate import ScoredMention, fit_calibration, report_calibration
from lmcells.expansion.calibration import Calibration


def planted(n: int, *, temperature: float, seed: int = 0) -> list[ScoredMention]:
    """Mentions whose truths are drawn from softmax(scores / temperature)."""
    draw = np.random.default_rng(seed)
    mentions = []
    for _ in range(n):
        scores = draw.normal(size=draw.integers(2, 6)) * 4
        probabilities = Calibration(temperature=temperature).probabilities(scores)
        mentions.append(ScoredMention(scores, int(draw.choice(scores.size, p=probabilities))))
    return mentions


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_that_was_planted_is_found(temperature: float) -> None:
    found = fit_calibration(planted(4000, temperature=temperature))
    assert found.temperature == pytest.approx(temperature, rel=0.1)


def test_a_calibrated_model_errs_as_often_as_it_says() -> None:
    mentions = planted(4000, temperature=2.0)
    fitted = report_calibration(mentions, fit_calibration(mentions))
    as_it_was = report_calibration(mentions, Calibration())
    assert fitted.calibration_error < 0.03 < as_it_was.calibration_error


def test_answers_are_given_only_where_enough_of_them_are_right() -> None:
    mentions = planted(4000, temperature=2.0)
    calibration = fit_calibration(mentions, precision=0.9, rejected=0.0)
    report = report_calibration(mentions, calibration)
    assert report.accuracy < 0.85
    assert report.precision >= 0.9
    assert 0.3 < report.answered < 0.95


def test_mentions_without_their_true_sense_score_less() -> None:
    mentions = planted(2000, temperature=0.5)
    report = report_calibration(mentions, Calibration())
    assert report.none_fits_auroc is not None
    assert report.none_fits_auroc > 0.7


def test_long_forms_that_cannot_be_known_do_not_spoil_the_fit() -> None:
    unknown = [ScoredMention(np.array([1.0, -np.inf]), 1)] * 50
    found = fit_calibration(planted(4000, temperature=1.0) + unknown)
    assert found.temperature == pytest.approx(1.0, rel=0.1)


def test_too_few_mentions_are_refused() -> None:
    with pytest.raises(InputError, match="at least 100 are needed"):
        fit_calibration(planted(99, temperature=1.0))


def test_a_fitted_calibration_survives_the_way_through_a_folder(tmp_path: Path) -> None:
    fitted = fit_calibration(planted(500, temperature=1.5))
    fitted.save(tmp_path)
    assert Calibration.load(tmp_path) == fitted
