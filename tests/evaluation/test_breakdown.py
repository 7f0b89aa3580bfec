import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from lmcells.errors import InputError
from lmcells.evaluation.metrics import (
    acronym_table,
    by_number_of_candidates,
    confusion_matrix,
    measure,
    summarise_seeds,
)

ANSWERS = [("AB", 0, 0), ("AB", 0, 1), ("AB", 1, 1), ("CD", 2, 0), ("CD", 0, 0), ("EF", 1, 1)]
CANDIDATES = {"AB": 2, "CD": 3, "EF": 2}


def test_the_acronym_table_by_hand() -> None:
    first, second, third = acronym_table(predictions_from_answers(ANSWERS, CANDIDATES))
    assert (first["short_form"], first["count"], first["targets"]) == ("AB", 3, 2)
    assert first["macro_precision"] == pytest.approx((1 + 1 / 2) / 2)
    assert first["macro_recall"] == pytest.approx((1 / 2 + 1) / 2)
    assert first["macro_f1"] == pytest.approx(2 / 3)
    assert first["weighted_precision"] == pytest.approx((2 * 1 + 1 * 1 / 2) / 3)
    assert first["weighted_recall"] == first["accuracy"] == pytest.approx(2 / 3)
    assert (second["targets"], second["macro_recall"]) == (3, 0.5)
    assert (third["count"], third["macro_f1"], third["weighted_f1"]) == (1, 1.0, 1.0)


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_the_mean_of_the_acronym_table_is_the_headline(seed: int) -> None:
    predictions = random_predictions(seed)
    table, metrics = acronym_table(predictions), measure(predictions)
    counts = [row["count"] for row in table]
    assert np.mean([row["macro_f1"] for row in table]) == pytest.approx(metrics.macro_f1)
    for name in ("accuracy", "weighted_f1", "nll"):
        mean = np.average([row[name] for row in table], weights=counts)
        assert mean == pytest.approx(getattr(metrics, name))


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_confusion_matrices_are_those_of_scikit_learn(seed: int) -> None:
    predictions = random_predictions(seed)
    for index, short_form in enumerate(predictions.short_forms):
        here = predictions.short_form_index == index
        found = confusion_matrix(predictions, short_form)
        labels = np.arange(len(found.long_forms))
        expected = sklearn_confusion_matrix(
            predictions.truth[here], predictions.predicted[here], labels=labels
        )
        np.testing.assert_array_equal(found.counts, expected)


def test_the_confusion_matrix_of_an_unknown_short_form_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'ABB' has no example .* Nearest: 'AB'"):
        confusion_matrix(predictions_from_answers(ANSWERS, CANDIDATES), "ABB")


def test_short_forms_are_grouped_by_their_number_of_candidates() -> None:
    two, three = by_number_of_candidates(predictions_from_answers(ANSWERS, CANDIDATES))
    assert (two["n_candidates"], two["n_short_forms"], two["n_examples"], two["accuracy"]) == (2, 2, 4, 0.75)
    assert two["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert (three["n_candidates"], three["n_short_forms"], three["n_examples"], three["accuracy"]) == (
        3,
        1,
        2,
        0.5,
    )


def test_worst_and_best_seeds_follow_the_direction_of_the_metric() -> None:
    run = measure(random_predictions(1))
    runs = [
        dataclasses.replace(run, nll=nll, macro_f1=f1) for nll, f1 in [(0.8, 0.5), (0.9, 0.7), (1.3, 0.6)]
    ]
    summary = summarise_seeds(runs)
    nll, f1 = summary["nll"], summary["macro_f1"]
    assert (nll["worst"], nll["mean"], nll["best"]) == pytest.approx((1.3, 1.0, 0.8))
    assert (f1["worst"], f1["mean"], f1["best"]) == pytest.approx((0.5, 0.6, 0.7))
    assert f1["standard_deviation"] == pytest.approx(0.1)
    assert summary["accuracy_at_1"]["best"] == run.accuracy


def test_one_seed_has_no_standard_deviation() -> None:
    summary = summarise_seeds([measure(random_predictions(1))])["accuracy"]
    assert summary["standard_deviation"] is None
    assert summary["worst"] == summary["mean"] == summary["best"]


def test_no_seed_is_an_error() -> None:
    with pytest.raises(InputError, match="no run"):
        summarise_seeds([])
