"""Probabilities from scores, and when not to answer."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.calibration import CALIBRATION, Calibration

SCORES = st.lists(st.floats(-1e3, 1e3) | st.just(-math.inf), min_size=1, max_size=8).map(np.array)


@given(SCORES, st.floats(0.01, 100))
def test_probabilities_add_up_and_keep_the_order(scores: np.ndarray, temperature: float) -> None:
    probabilities = Calibration(temperature=temperature).probabilities(scores)
    assert probabilities.sum() == pytest.approx(1)
    assert (np.diff(probabilities[np.argsort(scores, kind="stable")]) >= 0).all()
    if np.isfinite(scores).any():
        assert (probabilities[np.isneginf(scores)] == 0).all()


def test_a_temperature_of_two_halves_the_difference() -> None:
    probabilities = Calibration(temperature=2.0).probabilities(np.array([-1.0, -3.0]))
    assert probabilities[0] / probabilities[1] == pytest.approx(math.e)


def test_reasons_to_abstain() -> None:
    calibration = Calibration(least_probability=0.6, least_score=-10)

    def reason(*scores: float) -> str | None:
        array = np.array(scores)
        return calibration.reason_to_abstain(array, calibration.probabilities(array))

    assert reason(-1, -5) is None
    assert reason(-1, -1.1) == "low_confidence"
    assert reason(-11, -20) == "no_sense_fits"
    assert reason(-math.inf, -math.inf) == "no_known_long_form"


def test_by_default_every_question_is_answered() -> None:
    scores = np.array([-1e6, -1e6])
    assert Calibration().reason_to_abstain(scores, Calibration().probabilities(scores)) is None


def test_it_survives_a_model_folder(tmp_path: Path) -> None:
    assert Calibration.load(tmp_path) == Calibration()
    calibration = Calibration(temperature=3.5, least_probability=0.5, least_score=-2.0)
    calibration.save(tmp_path)
    assert Calibration.load(tmp_path) == calibration


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"heat": 1}', '{"temperature": 0}', '{"temperature": "hot"}']
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / CALIBRATION).write_text(content)
    with pytest.raises(ModelError, match=r"is damaged: [^\n]+$"):
        Calibration.load(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [{"temperature": -1}, {"temperature": math.nan}, {"least_probability": 2}, {"least_score": math.inf}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    assert json.dumps(list(settings))
    with pytest.raises(ConfigError, match="allowed"):
        Calibration(**settings)
