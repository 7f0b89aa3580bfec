from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from lmcells.errors import InputError
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
    intervals = paired_bootstrap(a, b, n_resamples=500)
    for name in ("accuracy", "macro_f1", "weighted_f1"):
        assert p_values[name] < 0.01
        assert intervals[name].low > 0
        assert intervals[name].estimate == pytest.approx(
            getattr(measure(a), name) - getattr(measure(b), name)
        )
    assert intervals["nll"].high < 0


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


def test_intervals_of_the_difference_cover_zero_when_there_is_none() -> None:
    covered = 0
    for trial in range(60):
        a, b = (random_predictions(s, n=80, test_set=trial) for s in (2 * trial, 2 * trial + 1))
        interval = paired_bootstrap(a, b, n_resamples=100, level=0.9, seed=trial)["accuracy"]
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


def test_one_note_alone_has_no_interval() -> None:
    with pytest.raises(InputError, match="at least two notes; found 1"):
        paired_bootstrap(_right("+-", notes=["n", "n"]), _right("--", notes=["n", "n"]))
