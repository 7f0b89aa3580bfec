"""The paper's metrics: within each short form over the candidates of the inventory, then over short forms or examples.

For a label (a long form of one short form) with `support` s, `predicted` p and `right` r examples:

    precision = r / p      recall = r / s      F1 = 2 r / (s + p)      (0 / 0 = 0)

*macro* is the mean over the labels of a short form that occur or were predicted, *weighted* the mean weighted by s.
Over a dataset, `macro_f1` is the mean over short forms of their macro F1; `accuracy`, `weighted_f1` and `nll` are over
all examples (labels weighted by s), and `mean_accuracy`, `mean_weighted_f1`, `mean_nll` are means over short forms.

Labels are numbered consecutively, short form after short form, so a resample of the examples is a vector of weights,
and its counts are four calls of `bincount`. Counts may have leading dimensions, one row per resample; metrics are
computed for all rows at once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation.predictions import Booleans, Floats, Integers, Predictions

LOWER_IS_BETTER = frozenset({"nll", "mean_nll"})


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts by label and summed losses by short form; leading dimensions are resamples."""

    first_label: Integers  # (n_short_forms,)
    support: Floats  # (..., n_labels) examples with this label
    predicted: Floats  # (..., n_labels) examples it was predicted for
    right: Floats  # (..., n_labels) both
    loss: Floats  # (..., n_short_forms)

    @classmethod
    def stack(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Return one tally whose first dimension runs over those given."""
        rows = list(tallies)
        names = ("support", "predicted", "right", "loss")
        return cls(rows[0].first_label, *(np.stack([getattr(row, name) for row in rows]) for name in names))

    def by_short_form(self, values: Floats) -> Floats:
        """Sum over the labels of each short form: (..., n_labels) -> (..., n_short_forms)."""
        return np.asarray(np.add.reduceat(values, self.first_label, axis=-1))

    @cached_property
    def n_examples(self) -> Floats:
        return self.by_short_form(self.support)


def tally(
    predictions: Predictions,
    weights: Floats | None = None,
    *,
    predicted: Integers | None = None,
    loss: Floats | None = None,
) -> Tally:
    """Count each example by its weight (1 by default); `predicted` and `loss` replace the model's own."""
    predicted = predictions.predicted if predicted is None else predicted
    loss = predictions.loss if loss is None else loss
    w = np.ones(len(predictions)) if weights is None else weights
    start, truth = predictions.first_label[predictions.short_form_index], predictions.truth
    n_labels = sum(map(len, predictions.candidates))
    is_right = truth == predicted

    def sum_by(codes: Integers, values: Floats, n_codes: int) -> Floats:
        return np.asarray(np.bincount(codes, values, n_codes), np.float64)

    return Tally(
        first_label=predictions.first_label,
        support=sum_by(start + truth, w, n_labels),
        predicted=sum_by(start + predicted, w, n_labels),
        right=sum_by((start + truth)[is_right], w[is_right], n_labels),
        loss=sum_by(predictions.short_form_index, w * loss, len(predictions.first_label)),
    )


@dataclass(frozen=True)
class Metrics:
    """One model on one dataset; the module's docstring defines the fields."""

    n: int
    n_short_forms: int
    accuracy: float
    weighted_f1: float
    macro_f1: float
    nll: float
    accuracy_at_k: dict[int, float]
    mean_accuracy: float
    mean_weighted_f1: float
    mean_nll: float
    macro_precision: float
    macro_recall: float
    weighted_precision: float
    weighted_recall: float


def measure(predictions: Predictions) -> Metrics:
    """All metrics of one model on one dataset."""
    if not len(predictions):
        n_examples: Counter[str] = Counter()
        for each in predictions.excluded:
            n_examples[each.reason] += each.n_examples
        reasons = "; ".join(f"{reason}: {n:,}" for reason, n in n_examples.most_common())
        raise InputError(
            f"{predictions.model}: no example is left to evaluate ({reasons or 'the dataset is empty'}). "
            "Give the inventory that the dataset was built with."
        )
    return Metrics(
        n=len(predictions),
        n_short_forms=len(predictions.short_forms),
        accuracy_at_k={k: float((predictions.rank_of_truth < k).mean()) for k in range(1, 6)},
        **{name: float(value) for name, value in headline(tally(predictions)).items()},
    )


def within_short_forms(counts: Tally) -> dict[str, Floats]:
    """Metrics of each short form by name, (..., n_short_forms); NaN where a short form has no example."""
    n = counts.n_examples
    n_labels = counts.by_short_form(((counts.support + counts.predicted) > 0).astype(np.float64))
    metrics = {}
    for name, values in _by_label(counts).items():
        metrics[f"macro_{name}"] = _divide(counts.by_short_form(values), n_labels, where=n > 0)
        metrics[f"weighted_{name}"] = _divide(counts.by_short_form(values * counts.support), n, where=n > 0)
    # The sum over labels of s/n r/s: weighted recall is accuracy.
    return metrics | {"accuracy": metrics["weighted_recall"], "nll": _divide(counts.loss, n, where=n > 0)}


def headline(counts: Tally) -> dict[str, Floats]:
    """Every metric over the dataset by name, in the tally's leading shape; short forms without examples are skipped."""
    n = counts.support.sum(axis=-1)
    over_examples = {
        name: (values * counts.support).sum(axis=-1) / n for name, values in _by_label(counts).items()
    }
    means = {}
    for name, values in within_short_forms(counts).items():
        is_present = ~np.isnan(values)
        means[name] = np.where(is_present, values, 0.0).sum(axis=-1) / is_present.sum(axis=-1)
    return {
        "accuracy": over_examples["recall"],
        "weighted_f1": over_examples["f1"],
        "macro_f1": means["macro_f1"],
        "nll": counts.loss.sum(axis=-1) / n,
        **{f"mean_{name}": means[name] for name in ("accuracy", "weighted_f1", "nll")},
        **{name: means[name] for name in ("macro_precision", "macro_recall")},
        **{f"weighted_{name}": over_examples[name] for name in ("precision", "recall")},
    }


def _by_label(counts: Tally) -> dict[str, Floats]:
    support, predicted, right = counts.support, counts.predicted, counts.right
    parts = {"precision": (right, predicted), "recall": (right, support)}
    parts["f1"] = 2 * right, support + predicted
    return {name: _divide(*each, where=each[1] > 0, otherwise=0.0) for name, each in parts.items()}


def _divide(above: Floats, below: Floats, *, where: Booleans, otherwise: float = np.nan) -> Floats:
    quotient: Floats = np.divide(above, below, out=np.full(np.shape(above), otherwise), where=where)
    return quotient


Row = dict[str, Any]  # a line of a table, by the names of its columns

HEADLINE = ("accuracy", "mean_weighted_f1", "macro_f1", "nll")  # of the paper's tables
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
        measured = (float(values[name]) for name in HEADLINE)
        rows.append(dict(zip(CANDIDATE_COLUMNS, (*counts, *measured), strict=True)))
    return rows


def summarise_seeds(runs: Sequence[Metrics]) -> dict[str, Row]:
    """Worst, mean and best of every metric over runs of one model; accuracy@k as "accuracy_at_k".

    Worst and best follow the metric's direction: a low NLL is good. A single run has no standard deviation.
    """
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
