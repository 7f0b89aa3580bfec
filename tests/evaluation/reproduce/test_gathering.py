"""Many runs of a model as one: the middle one, means, and the curve while training."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.prediction_samples import random_predictions
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.reproduce.gathering import curve_of, mean_metrics, middle
from lmcells.evaluation.reproduce.run_steps import RunResult

PREDICTIONS = random_predictions(0, skill=1.0, n_notes=5, test_set=1, model="x")


def run(seed: int, macro_f1: float = 0.0, curve: list[tuple[float, float]] | None = None) -> RunResult:
    points: list[dict[str, Any]] = [
        {"step": step, "hours": hours, "evaluation": {"dev": {"accuracy": accuracy}}}
        for step, (hours, accuracy) in enumerate(curve or [])
    ]
    metrics = replace(measure(PREDICTIONS), macro_f1=macro_f1)
    return RunResult(
        f"x-{seed}", seed, ModelResult("x", PREDICTIONS, metrics, {}, None, None, 1.0, {}), points
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_as_many_runs_are_better_than_the_middle_one_as_are_worse_or_one_more(scores: list[float]) -> None:
    chosen = middle([run(seed, score) for seed, score in enumerate(scores)]).metrics.macro_f1
    assert sum(score > chosen for score in scores) <= len(scores) // 2
    assert sum(score < chosen for score in scores) <= (len(scores) - 1) // 2


def test_a_curve_is_the_mean_over_runs_for_as_long_as_all_have_one() -> None:
    runs = [
        run(0, curve=[(1.0, 0.2), (2.0, 0.4)]),
        run(1, curve=[(3.0, 0.4), (4.0, 0.6), (5.0, 0.7)]),
        run(2),
    ]
    assert curve_of(runs, "dev") == [(2.0, pytest.approx(0.3)), (3.0, pytest.approx(0.5))]
    assert curve_of(runs, "other") == []
    assert curve_of([run(2)], "dev") == []


def test_mean_metrics_are_means_and_counts_stay() -> None:
    mean = mean_metrics([run(0, 0.25), run(1, 0.75)])
    assert mean is not None
    assert mean.macro_f1 == 0.5
    assert mean.n == measure(PREDICTIONS).n
    assert mean.accuracy_at_k == pytest.approx(measure(PREDICTIONS).accuracy_at_k)
    assert mean_metrics([]) is None
