"""Honest probabilities: "no sense fits" as a candidate, and how often each sense is meant."""

import json
from pathlib import Path

import numpy as np
import pytest

from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.calibration import Calibration, SensePriors, Writing
from lmcells.expansion.windows import Mention


def test_no_sense_fits_competes_with_the_senses() -> None:
    calibration = Calibration(none_score=6.0, least_probability=0.5)
    probabilities, abstained = calibration.judge(np.array([10.0, 2.0]))
    total = np.exp(10.0) + np.exp(2.0) + np.exp(6.0)
    assert probabilities == pytest.approx([np.exp(10.0) / total, np.exp(2.0) / total])
    assert abstained is None
    assert calibration.judge(np.array([5.0, 1.0]))[1] == "no_sense_fits"
    assert calibration.judge(np.array([7.0, 6.9]))[1] == "low_confidence"


def test_the_rest_of_the_note_tells_senses_apart_and_not_whether_one_fits() -> None:
    calibration = Calibration(none_score=6.0)
    own, shared = np.array([10.0, 9.0]), np.array([9.0, 10.0])
    alone, together = calibration.judge(own)[0], calibration.judge(own, shared)[0]
    assert sum(alone) == pytest.approx(sum(together))
    assert together == pytest.approx(alone[::-1])


def test_priors_are_added_to_the_log_odds() -> None:
    calibration = Calibration(temperature=2.0, none_score=0.0)
    probabilities, _ = calibration.judge(np.zeros(2), prior=[1.0, 0.0], none_prior=-1.0)
    assert probabilities[0] / probabilities[1] == pytest.approx(np.e)
    assert probabilities[1] / (1 - sum(probabilities)) == pytest.approx(np.e)


def test_a_weight_of_the_log_odds_makes_less_sure_of_the_same_sense() -> None:
    calibration = Calibration(none_score=0.0)
    given = {"prior": [1.0, 0.0], "none_prior": -1.0, "ordinary": 0.5}
    plain, _ = calibration.judge(np.array([2.0, 1.0]), **given)
    halved, _ = calibration.judge(np.array([2.0, 1.0]), **given, weight=0.5)
    odds = np.exp([3.0, 1.0, -1.0, 0.5])
    assert plain == pytest.approx((odds / odds.sum())[:2])
    assert halved == pytest.approx((odds**0.5 / (odds**0.5).sum())[:2])
    assert SensePriors({}).weight == 1
    assert SensePriors({"PT": {"patient": 0.9, "": 0.1}}).weight < 1


def test_priors_move_senses_and_none_and_say_nothing_of_other_short_forms(tmp_path: Path) -> None:
    SensePriors({"PT": {"patient": 0.7, "physical therapy": 0.2, "": 0.1}}).save(tmp_path)
    priors = SensePriors.load(tmp_path)
    of_senses, of_none = priors.of("PT", ["physical therapy", "patient"], Writing())
    assert of_senses[1] > 0 > of_senses[0] > of_none
    assert priors.of("MS", ["multiple sclerosis"], Writing()) == ([0.0], 0.0)
    assert SensePriors.load(tmp_path / "none").shares == {}


def test_priors_beside_numbers_are_saved_without_the_names_of_senses(tmp_path: Path) -> None:
    shares = {
        "MS": {"morphine": 0.2, "": 0.8},
        "MS #": {"morphine": 0.9, "": 0.1},
        "# MS": {"millisecond": 0.9, "": 0.1},
        "# IV #": {"": 0.5},
    }
    SensePriors(shares).save(tmp_path)
    assert json.loads((tmp_path / "sense_priors.json").read_text()) == shares | {"MS #": [0.9, 0.1]}
    assert SensePriors.load(tmp_path).shares == shares


def test_ways_of_writing_a_short_form_have_priors_of_their_own_where_there_are_any() -> None:
    names = ["heart rate", "hour"]
    shares = {
        "HR": {"heart rate": 0.6, "hour": 0.3, "": 0.1},
        "hr": {"heart rate": 0.3, "hour": 0.6, "": 0.1},
        "HR #": {"heart rate": 0.8, "hour": 0.1, "": 0.1},
        "# HR": {"heart rate": 0.1, "hour": 0.8, "": 0.1},
    }

    def hour(text: str, shares: dict[str, dict[str, float]]) -> float:
        start = text.lower().index("hr")
        writing = Writing.of(Mention(text, start, start + 2, "HR", None))
        (rate, hour), _ = SensePriors(shares).of("HR", names, writing)
        return hour - rate

    for text, key in {
        "HR regular": "HR",
        "hr regular": "hr",
        "Hr regular": "HR",
        "HR 82": "HR #",
        "hr: >100": "HR #",
        "98.6 HR 82": "HR #",
        "24 HR": "# HR",
        "a 24-hr urine": "# HR",
        "24\nHR": "HR",
        "HR\n82": "HR",
    }.items():
        assert hour(text, shares) == hour("HR", {"HR": shares[key]}), text
    assert hour("hr 82", {"hr": shares["hr"]}) == hour("hr", shares)
    assert hour("HR 82", {"HR": shares["HR"]}) == hour("HR", shares)


@pytest.mark.parametrize(
    "saved",
    [
        [],
        1,
        {"PT": 1},
        {"PT": []},
        {"PT #": [0.5]},
        {"PT": {"patient": 0.5}, "PT #": [0.5, 0.5]},
        {"PT": {"patient": 0.5}, "PT #": [0]},
        {"PT": {}},
        {"PT": {"patient": 0}},
        {"PT": {"patient": "0.5"}},
        {"PT": {"a": float("nan")}},
    ],
)
def test_priors_that_are_no_shares_are_refused(saved: object, tmp_path: Path) -> None:
    (tmp_path / "sense_priors.json").write_text(json.dumps(saved))
    with pytest.raises(ModelError, match=r"sense_priors\.json is damaged"):
        SensePriors.load(tmp_path)


@pytest.mark.parametrize(
    "scores", [[np.nan, 1.0], [1.0, np.nan], [np.inf, 1.0], [np.inf, np.inf], [np.nan, np.nan]]
)
@pytest.mark.parametrize("calibration", [Calibration(), Calibration(none_score=0.0)])
def test_scores_that_are_not_finite_get_no_probability(calibration: Calibration, scores: list[float]) -> None:
    with pytest.raises(ModelError, match="scores are not finite"):
        calibration.judge(np.array(scores))


@pytest.mark.parametrize("name", ["least_score", "none_score"])
def test_a_calibration_that_is_not_finite_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: found nan"):
        Calibration(**{name: float("nan")})
