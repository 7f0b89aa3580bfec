import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_score, recall_score
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from evaluation.prediction_samples import example, predictions_from_answers, random_predictions
from lmcells.errors import FormatError, InputError, ModelError
from lmcells.evaluation.metrics import (
    Tally,
    acronym_table,
    by_number_of_candidates,
    confusion_matrix,
    measure,
    summarise_seeds,
    tally,
    within_short_forms,
)
from lmcells.evaluation.predictions import Predictions, load_predictions, save_predictions

SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
seeds = st.integers(0, 2**32 - 1)
skills = st.floats(0, 4)


@settings(max_examples=40)
@given(seed=seeds, skill=skills, n=st.integers(1, 80))
def test_metrics_within_each_short_form_are_those_of_scikit_learn(seed: int, skill: float, n: int) -> None:
    predictions = random_predictions(seed, skill=skill, n=n)
    ours = within_short_forms(tally(predictions))
    for index in range(len(predictions.short_forms)):
        here = predictions.short_form_index == index
        truth, predicted = predictions.truth[here], predictions.predicted[here]
        assert ours["accuracy"][index] == pytest.approx(accuracy_score(truth, predicted))
        for average in ("macro", "weighted"):
            for name, function in SCORES.items():
                expected = function(truth, predicted, average=average, zero_division=0)
                assert ours[f"{average}_{name}"][index] == pytest.approx(expected)
        width = len(predictions.candidates[index])
        p = np.exp(predictions.log_probabilities[here, :width])
        assert ours["nll"][index] == pytest.approx(log_loss(truth, p, labels=np.arange(width)))


@settings(max_examples=40)
@given(seed=seeds, skill=skills)
def test_metrics_over_all_examples_are_those_of_scikit_learn_on_numbered_labels(
    seed: int, skill: float
) -> None:
    predictions = random_predictions(seed, skill=skill)
    metrics, start = measure(predictions), predictions.first_label[predictions.short_form_index]
    truth, predicted = start + predictions.truth, start + predictions.predicted
    by_short_form = [predictions.short_form_index == i for i in range(len(predictions.short_forms))]
    macro = [f1_score(truth[i], predicted[i], average="macro") for i in by_short_form]
    assert metrics.accuracy == pytest.approx(accuracy_score(truth, predicted))
    assert metrics.weighted_f1 == pytest.approx(f1_score(truth, predicted, average="weighted"))
    assert metrics.macro_f1 == pytest.approx(np.mean(macro))
    assert metrics.nll == pytest.approx(-predictions.log_probability_of_truth.mean())
    assert metrics.mean_accuracy == pytest.approx(
        np.mean([predictions.is_right[i].mean() for i in by_short_form])
    )


@given(seed=seeds, skill=skills)
@settings(max_examples=40)
def test_accuracy_at_k_grows_from_accuracy_to_one(seed: int, skill: float) -> None:
    metrics = measure(random_predictions(seed, skill=skill))
    values = [metrics.accuracy_at_k[k] for k in sorted(metrics.accuracy_at_k)]
    assert values[0] == metrics.accuracy
    assert values == sorted(values)
    assert values[-1] == 1.0  # the samples have at most five candidates


@given(seed=seeds)
@settings(max_examples=20)
def test_weights_count_an_example_as_often_as_repeating_it_would(seed: int) -> None:
    predictions = random_predictions(seed)
    times = np.random.default_rng(seed).integers(0, 4, size=len(predictions))
    times[[np.flatnonzero(predictions.short_form_index == i)[0] for i in range(4)]] += 1  # each is drawn
    chosen = np.repeat(np.arange(len(times)), times)
    repeated = tally(
        replace(
            predictions,
            ids=tuple(map(str, range(len(chosen)))),
            note_ids=("n",) * len(chosen),
            short_form_index=predictions.short_form_index[chosen],
            truth=predictions.truth[chosen],
            log_probabilities=predictions.log_probabilities[chosen],
        )
    )
    weighted = Tally.stack([tally(predictions, times.astype(float))] * 2)
    for name in ("support", "predicted", "right", "loss"):
        np.testing.assert_allclose(getattr(weighted, name)[1], getattr(repeated, name))
    once, twice = within_short_forms(repeated), within_short_forms(weighted)
    np.testing.assert_allclose(twice["macro_f1"][0], once["macro_f1"])


def test_a_tiny_case_by_hand() -> None:
    answers = [("AB", 0, 0), ("AB", 0, 0), ("AB", 0, 1), ("AB", 1, 1), ("XY", 0, 2)]
    metrics = measure(predictions_from_answers(answers, {"AB": 3, "XY": 3}))
    # AB: F1 of sense 0 is 4/5, of sense 1 is 2/3; sense 2 neither occurs nor is predicted. XY: both senses 0.
    assert metrics.macro_f1 == pytest.approx(((4 / 5 + 2 / 3) / 2 + 0) / 2)
    assert metrics.weighted_f1 == pytest.approx((3 * 4 / 5 + 1 * 2 / 3 + 0) / 5)
    assert metrics.accuracy == 3 / 5
    assert metrics.mean_accuracy == pytest.approx((3 / 4 + 0) / 2)
    assert metrics.mean_weighted_f1 == pytest.approx(((3 * 4 / 5 + 1 * 2 / 3) / 4 + 0) / 2)
    # p = 1/2 where right, 1/4 where not
    assert metrics.nll == pytest.approx((3 * np.log(2) + 2 * np.log(4)) / 5)
    assert metrics.accuracy_at_k[2] == pytest.approx(4 / 5 + 1 / 5)
    assert metrics.accuracy_at_k.keys() == {1, 2, 3, 4, 5}


def predictions_of(
    truths: list[tuple[str, str]], scores: object, candidates_of: dict[str, list[str]]
) -> Predictions:
    """From (short form, long form); the ids are a, b, c..."""
    examples = [example(chr(ord("a") + i), *truth) for i, truth in enumerate(truths)]
    return Predictions.from_scores("m", examples=examples, scores=scores, candidates_of=candidates_of)  # type: ignore[arg-type]


def test_equal_scores_are_ranked_in_the_order_of_the_inventory() -> None:
    predictions = predictions_of([("AB", "x"), ("AB", "z")], np.zeros((2, 3)), {"AB": ["x", "y", "z"]})
    assert predictions.predicted.tolist() == [0, 0]
    assert predictions.rank_of_truth.tolist() == [0, 2]


def test_a_long_form_without_a_score_is_ranked_last_reported_and_kept() -> None:
    scores = [[-np.inf, 1.0, 0.0], [-np.inf, 0.0, 1.0], [-np.inf, 2.0, 2.0]]
    truths = [("AB", "x"), ("AB", "y"), ("AB", "x")]
    predictions = predictions_of(truths, scores, {"AB": ["x", "y", "z"]})
    assert predictions.rank_of_truth.tolist() == [2, 1, 2]
    assert [(e.long_form, e.reason, e.n_examples, e.kept) for e in predictions.excluded] == [
        ("x", "no known word", 2, True)
    ]
    assert np.isfinite(measure(predictions).nll)
    assert np.exp(predictions.log_probabilities[2]) == pytest.approx([1 / 3] * 3)


def test_when_no_long_form_has_a_score_all_are_equally_probable() -> None:
    predictions = predictions_of([("AB", "y")], [[-np.inf, -np.inf]], {"AB": ["x", "y"]})
    assert np.exp(predictions.log_probabilities[0]) == pytest.approx([1 / 2, 1 / 2])
    assert len(predictions.excluded) == 2


def test_senses_outside_the_inventory_are_left_out_and_reported() -> None:
    truths = [("AB", "x"), ("AB", "new"), ("QQ", "x"), ("QQ", "x")]
    predictions = predictions_of(truths, np.zeros((4, 2)), {"AB": ["x", "y"], "ZZ": ["only"]})
    assert predictions.ids == ("a",)
    assert predictions.short_forms == ("AB",)
    found = [(e.short_form, e.long_form, e.n_examples, e.kept) for e in predictions.excluded]
    assert found == [("AB", "new", 1, False), ("QQ", "x", 2, False)]


def test_a_probability_of_zero_costs_much_but_not_infinitely() -> None:
    predictions = predictions_of([("AB", "y")], [[0.0, -1e6]], {"AB": ["x", "y"]})
    assert measure(predictions).nll == pytest.approx(708.4, abs=0.1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ModelError, match=r"NaN or .* have diverged"):
        predictions_of([("AB", "y")], [[0.0, bad]], {"AB": ["x", "y"]})


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(InputError, match=r"no example is left .*short form is not in the inventory: 1"):
        measure(predictions_of([("AB", "y")], [[0.0, 1.0]], {"XY": ["x"]}))


def test_two_examples_of_one_id_are_an_error() -> None:
    twice = [example("a", "AB", "x"), example("a", "AB", "y")]
    candidates_of = {"AB": ["x", "y"]}
    with pytest.raises(InputError, match="'a' occurs 2 times"):
        Predictions.from_scores("m", examples=twice, scores=np.zeros((2, 2)), candidates_of=candidates_of)


def test_examples_of_one_note_are_a_cluster() -> None:
    answers = [("AB", 0, 0)] * 4
    predictions = predictions_from_answers(answers, {"AB": 1}, notes=["n", "b", "n", "a"])
    assert predictions.cluster.tolist() == [0, 1, 0, 2]


def test_predictions_survive_a_round_trip_through_files(tmp_path: Path) -> None:
    predictions = random_predictions(3, n_notes=7, model="lmc-0.1")
    save_predictions(tmp_path / "lmc-0.1", predictions)
    assert {path.name for path in tmp_path.iterdir()} == {"lmc-0.1.json", "lmc-0.1.npz"}
    loaded = load_predictions(tmp_path / "lmc-0.1")
    for name in ("model", "ids", "note_ids", "short_forms", "candidates", "excluded"):
        assert getattr(loaded, name) == getattr(predictions, name)
    for name in ("short_form_index", "truth", "log_probabilities"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(predictions, name))
    assert measure(loaded) == measure(predictions)


def test_damaged_or_missing_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with pytest.raises(FormatError, match=r"m\.json does not exist"):
        load_predictions(path)
    save_predictions(path, random_predictions(3))
    names = json.loads((tmp_path / "m.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(names | {"ids": names["ids"][1:]}))
    with pytest.raises(FormatError, match="not a pair of predictions"):
        load_predictions(path)
    (tmp_path / "m.json").write_text(json.dumps(names | {"version": 99}))
    with pytest.raises(FormatError, match="version 99"):
        load_predictions(path)
    (tmp_path / "m.json").write_text(json.dumps(names))
    (tmp_path / "m.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(FormatError, match="not a pair of predictions"):
        load_predictions(path)


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
@settings(max_examples=25)
def test_the_mean_of_the_acronym_table_is_the_headline(seed: int) -> None:
    predictions = random_predictions(seed)
    table, metrics = acronym_table(predictions), measure(predictions)
    counts = [row["count"] for row in table]
    assert np.mean([row["macro_f1"] for row in table]) == pytest.approx(metrics.macro_f1)
    for name in ("accuracy", "weighted_f1", "nll"):
        mean = np.average([row[name] for row in table], weights=counts)
        assert mean == pytest.approx(getattr(metrics, name))
        over_short_forms = np.mean([row[name] for row in table])
        assert over_short_forms == pytest.approx(getattr(metrics, f"mean_{name}"))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
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


def test_short_forms_are_grouped_by_their_number_of_candidates() -> None:
    two, three = by_number_of_candidates(predictions_from_answers(ANSWERS, CANDIDATES))
    assert (two["n_candidates"], two["n_short_forms"], two["n_examples"], two["accuracy"]) == (2, 2, 4, 0.75)
    assert two["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    counted = three["n_candidates"], three["n_short_forms"], three["n_examples"], three["accuracy"]
    assert counted == (3, 1, 2, 0.5)


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
