"""Many runs of a model as one: the middle one, means, and the curve while training."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.prediction_samples import random_predictions
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.reproduce.report_steps import curve_of, means_of, middle

METRICS = measure(random_predictions(0, skill=1.0, n_notes=5, test_set=1, model="x"))


def run(macro_f1: float = 0.0, curve: Sequence[tuple[float, float]] = ()) -> dict[str, Any]:
    points = [{"hours": hours, "evaluation": {"dev": {"accuracy": accuracy}}} for hours, accuracy in curve]
    return {"metrics": replace(METRICS, macro_f1=macro_f1), "curve": points}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_as_many_runs_are_better_than_the_middle_one_as_are_worse_or_one_more(scores: list[float]) -> None:
    chosen = middle(list(map(run, scores)))["metrics"].macro_f1
    assert sum(score > chosen for score in scores) <= len(scores) // 2
    assert sum(score < chosen for score in scores) <= (len(scores) - 1) // 2


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
