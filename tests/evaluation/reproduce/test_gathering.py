"""Many runs of a model as one: the best one, means, and the curve while training."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.prediction_samples import random_predictions
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.reproduce.report_steps import _rows, best_run, curve_of, means_of

METRICS = measure(random_predictions(0, skill=1.0, n_notes=5, test_set=1, model="x"))


def run(macro_f1: float = 0.0, curve: Sequence[tuple[float, float]] = ()) -> dict[str, Any]:
    points = [{"hours": hours, "evaluation": {"dev": {"accuracy": accuracy}}} for hours, accuracy in curve]
    return {"metrics": replace(METRICS, macro_f1=macro_f1), "curve": points}


def test_the_best_run_is_shown_and_of_equals_the_first() -> None:
    runs = [run(0.2), run(0.7), run(0.7), run(0.5)]
    assert best_run(runs) is runs[1]


def test_a_curve_is_the_mean_over_runs_for_as_long_as_all_have_one() -> None:
    curves = ([(1.0, 0.2), (2.0, 0.4)], [(3.0, 0.4), (4.0, 0.6), (5.0, 0.7)], [])
    runs = [run(curve=curve) for curve in curves]
    assert curve_of(runs, "dev") == [(2.0, pytest.approx(0.3)), (3.0, pytest.approx(0.5))]
    assert curve_of(runs, "other") == []
    assert curve_of([run()], "dev") == []


def test_means_are_over_runs() -> None:
    mean = means_of([run(0.25), run(0.75)])
    assert mean["macro_f1"] == 0.5
    assert mean["accuracy_at_2"] == pytest.approx(METRICS.accuracy_at_k[2])
    assert means_of([]) == {}


def test_the_best_of_the_others_is_bold_where_an_oracle_is_better() -> None:
    costs = {"n_parameters": None, "hours_to_peak": None}
    runs = {"lmc": [run(0.6) | costs], "bsg": [run(0.5) | costs], "dominant": [run(0.9) | costs]}
    rows: Any = _rows(SimpleNamespace(runs=runs, oracles={"dominant"}, published=[]))  # type: ignore[arg-type]
    assert {row["model"]: "macro_f1" in row["best"] for row in rows} == {
        "lmc": True,
        "bsg": False,
        "dominant (oracle)": False,
    }
