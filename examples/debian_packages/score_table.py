"""Means of scores over words, with intervals, as a table or as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]  # (words, measures)

N_RESAMPLES = 2_000


def summarize(
    scores: Mapping[str, Scores], measures: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """The mean of each view and measure, and 95 % of the means of as many words drawn with replacement."""
    return {view: dict(zip(measures, _of_columns(each), strict=True)) for view, each in scores.items()}


def _of_columns(scores: Scores) -> list[dict[str, float]]:
    draws = np.random.default_rng(0).integers(len(scores), size=(N_RESAMPLES, len(scores)))
    ends = np.quantile(scores[draws].mean(axis=1), (0.025, 0.975), axis=0)  # (2, measures)
    rows = zip(scores.mean(axis=0), *ends, strict=True)
    return [{"mean": float(mean), "low": float(low), "high": float(high)} for mean, low, high in rows]


def print_scores(
    scores: Mapping[str, Scores],
    measures: Sequence[str],
    *,
    title: str,
    about: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print a row a view, or everything as JSON."""
    summary = summarize(scores, measures)
    if as_json:
        print(json.dumps({**about, "views": summary}, indent=1))
        return
    print(f"{title}; mean and 95 % interval")
    print(f"{'':14}" + "".join(f"{measure:>20}" for measure in measures))
    for view, of_view in summary.items():
        shown = (f"{each['mean']:.2f} ({each['low']:.2f} to {each['high']:.2f})" for each in of_view.values())
        print(f"{view:14}" + "".join(f"{each:>20}" for each in shown))
