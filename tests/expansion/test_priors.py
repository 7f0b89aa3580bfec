"""Honest probabilities: "no sense fits" as a candidate, and how often each sense is meant."""

from pathlib import Path

import numpy as np
import pytest

from lmcells.expansion.calibration import Calibration, SensePriors


def test_no_sense_fits_competes_with_the_senses() -> None:
    calibration = Calibration(none_score=6.0)
    expected = (np.exp(10.0) + np.exp(2.0)) / (np.exp(10.0) + np.exp(2.0) + np.exp(6.0))
    assert calibration.fit(np.array([10.0, 2.0])) == pytest.approx(expected)
    assert Calibration().fit(np.array([-9.0])) == 1.0
    scores = np.array([5.0, 1.0])
    probabilities = calibration.fit(scores) * calibration.probabilities(scores)
    assert calibration.reason_to_abstain(scores, probabilities) == "no_sense_fits"


def test_priors_move_senses_and_none_and_say_nothing_of_other_short_forms(tmp_path: Path) -> None:
    SensePriors({"PT": {"patient": 0.7, "physical therapy": 0.2, "": 0.1}}).save(tmp_path)
    priors = SensePriors.load(tmp_path)
    of_senses, of_none = priors.of("PT", ["physical therapy", "patient"])
    assert of_senses[1] > 0 > of_senses[0] > of_none
    assert priors.of("MS", ["multiple sclerosis"])[0].tolist() == [0.0]
    assert SensePriors.load(tmp_path / "none").shares == {}
