"""Where a model is good and where it is not: by acronym, by sense, by number of candidates, by seed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lmcells.errors import InputError, nearest
from lmcells.evaluation.metrics import LOWER_IS_BETTER, Metrics, headline, tally, within_short_forms
from lmcells.evaluation.predictions import Integers, Predictions

Row = dict[str, Any]  # a line of a table, by the names of its columns

HEADLINE = ("accuracy", "weighted_f1", "macro_f1", "nll")
ACRONYM_METRICS = (
    *("macro_precision", "macro_recall", "macro_f1"),
    *("weighted_precision", "weighted_recall", "weighted_f1", "accuracy", "nll"),
)
CANDIDATE_COLUMNS = ("n_candidates", "n_short_forms", "n_examples", *HEADLINE)
SEED_COLUMNS = ("metric", "n_seeds", "worst", "mean", "best", "standard_deviation")


class ConfusionMatrix(NamedTuple):
    """`counts[i, j]`: examples of `long_forms[i]` that were taken for `long_forms[j]`."""

    short_form: str
    long_forms: tuple[str, ...]
    counts: Integers  # (n_candidates, n_candidates)


def acronym_table(predictions: Predictions) -> list[Row]:
    """The paper's acronym table, in alphabetical order: count, targets, mPr mR mF1 wPr wR wF1 (wR is the accuracy)."""
    counts = tally(predictions)
    found = within_short_forms(counts)
    return [
        {
            "short_form": short_form,
            "count": int(counts.n_examples[index]),
            "targets": len(predictions.candidates[index]),
            **{name: float(found[name][index]) for name in ACRONYM_METRICS},
        }
        for index, short_form in enumerate(predictions.short_forms)
    ]


def confusion_matrix(predictions: Predictions, short_form: str) -> ConfusionMatrix:
    """True against predicted long forms of one short form."""
    if short_form not in predictions.short_forms:
        raise InputError(
            f"{short_form!r} has no example among the predictions of {predictions.model} "
            f"({len(predictions.short_forms)} short forms).{nearest(short_form, predictions.short_forms)}"
        )
    index = predictions.short_forms.index(short_form)
    here = predictions.short_form_index == index
    long_forms = predictions.candidates[index]
    cell = predictions.truth[here] * len(long_forms) + predictions.predicted[here]
    counts = np.bincount(cell, minlength=len(long_forms) ** 2).reshape(len(long_forms), len(long_forms))
    return ConfusionMatrix(short_form, long_forms, counts)


def by_number_of_candidates(predictions: Predictions) -> list[Row]:
    """The paper's "effect of the number of target expansions", fewest candidates first."""
    widths = np.array([len(names) for names in predictions.candidates], dtype=np.int64)
    rows = []
    for width in np.unique(widths):
        here = widths[predictions.short_form_index] == width
        values = headline(tally(predictions, here.astype(np.float64)))
        counts = (int(width), int((widths == width).sum()), int(here.sum()))
        rows.append(
            dict(zip(CANDIDATE_COLUMNS, (*counts, *(float(values[name]) for name in HEADLINE)), strict=True))
        )
    return rows


def summarise_seeds(runs: Sequence[Metrics]) -> dict[str, Row]:
    """Worst, mean and best of every metric over runs of one model; accuracy@k as "accuracy_at_k".

    Worst and best follow the metric's direction: a low NLL is good. A single run has no standard deviation.
    """
    if not runs:
        raise InputError("There is no run to summarise.")
    values: dict[str, list[float]] = {}
    for run in runs:
        at_k = {f"accuracy_at_{k}": value for k, value in run.accuracy_at_k.items()}
        for name, value in {**vars(run), **at_k}.items():
            if isinstance(value, float):
                values.setdefault(name, []).append(value)
    found = {}
    for name, of_runs in values.items():
        worst, best = sorted((min(of_runs), max(of_runs)), reverse=name in LOWER_IS_BETTER)
        spread = float(np.std(of_runs, ddof=1)) if len(runs) > 1 else None
        values_of = (name, len(runs), worst, float(np.mean(of_runs)), best, spread)
        found[name] = dict(zip(SEED_COLUMNS, values_of, strict=True))
    return found
