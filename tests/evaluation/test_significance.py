import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from lmcells.errors import InputError
from lmcells.evaluation.metrics import Coding, headline, measure
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.significance import (
    _swapped_differences,
    compare_all,
    holm,
    mcnemar,
    paired_bootstrap,
    randomisation_test,
)


def _right(pattern: str, *, model: str = "m", notes: list[str] | None = None) -> Predictions:
    """Senses alternate; "+" is right and "-" is wrong."""
    answers = [("AB", i % 2, i % 2 if sign == "+" else 1 - i % 2) for i, sign in enumerate(pattern)]
    return predictions_from_answers(answers, {"AB": 2}, model=model, notes=notes)


def test_p_values_of_equal_models_are_uniform() -> None:
    found: dict[str, list[float]] = {"accuracy": [], "macro_f1": [], "nll": []}
    for trial in range(150):
        a, b = (random_predictions(s, n=150, n_notes=50, test_set=trial) for s in (2 * trial, 2 * trial + 1))
        for name, p in randomisation_test(a, b, metrics=tuple(found), n_rounds=200, seed=trial).items():
            found[name].append(p)
    for name in ("macro_f1", "nll"):
        assert kstest(found[name], "uniform").pvalue > 0.01
    # Accuracy takes few values, so its p-values are lumpy and err towards caution; they must not err the other way.
    assert np.mean(np.array(found["accuracy"]) <= 0.1) == pytest.approx(0.1, abs=0.06)


def test_p_values_ignoring_notes_are_too_small_when_notes_decide() -> None:
    n_small = {True: 0, False: 0}
    random = np.random.default_rng(3)
    for trial in range(60):
        signs_a, signs_b = ("".join(c * 10 for c in random.choice(["+", "-"], size=20)) for _ in range(2))
        notes = [f"n{i // 10}" for i in range(200)]
        a, b = _right(signs_a, notes=notes), _right(signs_b, notes=notes)
        for by_note in n_small:
            p = randomisation_test(a, b, metrics=["accuracy"], n_rounds=99, by_note=by_note, seed=trial)
            n_small[by_note] += p["accuracy"] <= 0.05
    assert n_small[True] <= 8
    assert n_small[False] >= 20


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
    assert mcnemar(a, b) < 0.01


def test_the_fast_swap_is_the_slow_one() -> None:
    a, b = (random_predictions(s, n_notes=15, test_set=0) for s in (1, 2))
    swap = np.random.default_rng(0).integers(2, size=(5, int(a.cluster.max()) + 1), dtype=bool)
    x, y = Coding.of(a), Coding.of(b)
    fast = _swapped_differences(x, y, swap, a.cluster)
    for round_, row in enumerate(swap):
        s = row[a.cluster]
        first, second = (
            headline(
                Coding(
                    x.first_label,
                    x.n_labels,
                    x.short_form,
                    x.truth,
                    np.where(s, other.predicted, one.predicted),
                    np.where(s, other.loss, one.loss),
                ).tally()
            )
            for one, other in ((x, y), (y, x))
        )
        for name in fast:
            assert fast[name][round_] == pytest.approx(first[name] - second[name])


def test_intervals_of_the_difference_cover_zero_when_there_is_none() -> None:
    covered = 0
    for trial in range(100):
        a, b = (random_predictions(s, n=100, test_set=trial) for s in (2 * trial, 2 * trial + 1))
        interval = paired_bootstrap(a, b, metrics=["accuracy"], n_resamples=200, level=0.9, seed=trial)[
            "accuracy"
        ]
        covered += interval.low <= 0 <= interval.high
    assert covered / 100 == pytest.approx(0.9, abs=0.09)


def test_a_model_compared_with_itself_is_not_different() -> None:
    a = random_predictions(1)
    assert set(randomisation_test(a, a, n_rounds=50).values()) == {1.0}
    assert mcnemar(a, a) == 1.0
    assert paired_bootstrap(a, a, n_resamples=50)["macro_f1"].high == 0.0


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (5, 0), (8, 3), (7, 7), (300, 340), (900, 700)])
def test_mcnemar_is_the_binomial_test_on_discordant_pairs(b: int, c: int) -> None:
    first = _right("+" * b + "-" * c + "++--")
    second = _right("-" * b + "+" * c + "++--")
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(first, second) == pytest.approx(expected)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_all_pairs_are_compared_and_corrected_within_a_metric() -> None:
    models = [random_predictions(s, skill=s, model=f"m{s}", test_set=0) for s in (0, 1, 2)]
    found = compare_all(models, metrics=["accuracy", "macro_f1"], n_rounds=100, n_resamples=50)
    assert [(c.first, c.second) for c in found if c.metric == "macro_f1"] == [
        ("m0", "m1"),
        ("m0", "m2"),
        ("m1", "m2"),
    ]
    for metric in ("accuracy", "macro_f1"):
        of_metric = [c for c in found if c.metric == metric]
        assert [c.adjusted_p_value for c in of_metric] == holm([c.p_value for c in of_metric])
    assert found == compare_all(models, metrics=["accuracy", "macro_f1"], n_rounds=100, n_resamples=50)


def test_models_tested_on_different_examples_are_not_compared() -> None:
    with pytest.raises(InputError, match="3 and 2 examples, 2 in common"):
        mcnemar(_right("++-"), _right("++"))


def test_an_unknown_metric_is_named_with_the_choices() -> None:
    a = random_predictions(1)
    with pytest.raises(InputError, match=r"'f2' is not a metric .* One of: accuracy, macro_f1"):
        randomisation_test(a, a, metrics=["f2"])
