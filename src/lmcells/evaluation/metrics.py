"""The paper's metrics: within each short form over the candidates of the inventory, then over short forms or examples.

For a label (a long form of one short form) with `support` s, `predicted` p and `right` r examples:

    precision = r / p      recall = r / s      F1 = 2 r / (s + p)      (0 / 0 = 0)

*macro* is the mean over the labels of a short form that occur or were predicted, *weighted* the mean weighted by s.
Over a dataset, `macro_f1` is the mean over short forms of their macro F1; `accuracy`, `weighted_f1` and `nll` are over
all examples (labels weighted by s), and `mean_accuracy`, `mean_weighted_f1`, `mean_nll` are means over short forms.

Labels are numbered through, short form after short form, so a resample of the examples is a vector of weights, and its
counts are four calls of `bincount`. Counts may have leading dimensions, one row per resample; metrics are computed for
all rows at once.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.evaluation.predictions import Booleans, Floats, Integers, Predictions

LOWER_IS_BETTER = frozenset({"nll", "mean_nll"})
_LARGEST_LOSS = -float(
    np.log(np.finfo(np.float64).tiny)
)  # 708.4: a probability of 0 costs much, not infinitely


@dataclass(frozen=True, eq=False)
class Coding:
    """Predictions as label numbers."""

    first_label: Integers  # (n_short_forms,) the first label of each short form
    n_labels: int
    short_form: Integers  # (n,)
    truth: Integers  # (n,) label numbers
    predicted: Integers  # (n,) label numbers
    loss: Floats  # (n,) -log p of the true long form

    @classmethod
    def of(cls, predictions: Predictions) -> "Coding":
        """Number the labels of predictions."""
        widths = np.array([len(names) for names in predictions.candidates], dtype=np.int64)
        first_label = np.cumsum(widths) - widths
        start = first_label[predictions.short_form_index]
        return cls(
            first_label=first_label,
            n_labels=int(widths.sum()),
            short_form=predictions.short_form_index,
            truth=start + predictions.truth,
            predicted=start + predictions.predicted,
            loss=np.minimum(-predictions.log_probability_of_truth, _LARGEST_LOSS),
        )

    def tally(self, weights: Floats | None = None) -> "Tally":
        """Count each example as often as its weight says (once, without weights)."""
        w = np.ones(len(self.truth)) if weights is None else weights
        is_right = self.truth == self.predicted
        return Tally(
            first_label=self.first_label,
            support=_sum_by(self.truth, w, self.n_labels),
            predicted=_sum_by(self.predicted, w, self.n_labels),
            right=_sum_by(self.truth[is_right], w[is_right], self.n_labels),
            loss=_sum_by(self.short_form, w * self.loss, len(self.first_label)),
        )


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
        summed: Floats = np.add.reduceat(values, self.first_label, axis=-1)
        return summed

    @cached_property
    def n_examples(self) -> Floats:
        """Examples of each short form."""
        return self.by_short_form(self.support)


def _sum_by(codes: Integers, weights: Floats, n_codes: int) -> Floats:
    sums: npt.NDArray[Any] = np.bincount(
        codes, weights, n_codes
    )  # numpy's stub forgets that weights make it float
    return sums.astype(np.float64, copy=False)


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

    def to_json(self) -> dict[str, Any]:
        """Fields as JSON holds them: the k of accuracy@k become strings."""
        return asdict(self) | {"accuracy_at_k": {str(k): value for k, value in self.accuracy_at_k.items()}}


def measure(predictions: Predictions) -> Metrics:
    """All metrics of one model on one dataset."""
    if not len(predictions):
        raise InputError(
            f"{predictions.model}: no example is left to evaluate "
            f"({sum(not e.kept for e in predictions.excluded)} senses were left out). "
            "Are dataset and inventory of the same short forms?"
        )
    values = {name: float(value) for name, value in headline(Coding.of(predictions).tally()).items()}
    return Metrics(
        n=len(predictions),
        n_short_forms=len(predictions.short_forms),
        accuracy_at_k={k: float((predictions.rank_of_truth < k).mean()) for k in range(1, 6)},
        **values,
    )


def within_short_forms(tally: Tally) -> dict[str, Floats]:
    """Metrics of each short form by name, (..., n_short_forms); NaN where a short form has no example."""
    by_label = _by_label(tally)
    n = tally.n_examples
    n_labels = tally.by_short_form(((tally.support + tally.predicted) > 0).astype(np.float64))
    metrics = {}
    for name, values in by_label.items():
        metrics[f"macro_{name}"] = _divide(tally.by_short_form(values), n_labels, where=n > 0)
        metrics[f"weighted_{name}"] = _divide(tally.by_short_form(values * tally.support), n, where=n > 0)
    # The sum over labels of s/n r/s: weighted recall is accuracy.
    return metrics | {
        "accuracy": metrics["weighted_recall"],
        "nll": _divide(tally.loss, n, where=n > 0),
    }


def headline(tally: Tally) -> dict[str, Floats]:
    """Every metric over the dataset by name, of the tally's leading shape; absent short forms have no say."""
    each = within_short_forms(tally)
    n = tally.support.sum(axis=-1)
    over_examples = {
        name: (values * tally.support).sum(axis=-1) / n for name, values in _by_label(tally).items()
    }
    return {
        "accuracy": over_examples["recall"],
        "weighted_f1": over_examples["f1"],
        "macro_f1": _mean_of_present(each["macro_f1"]),
        "nll": tally.loss.sum(axis=-1) / n,
        "mean_accuracy": _mean_of_present(each["accuracy"]),
        "mean_weighted_f1": _mean_of_present(each["weighted_f1"]),
        "mean_nll": _mean_of_present(each["nll"]),
        "macro_precision": _mean_of_present(each["macro_precision"]),
        "macro_recall": _mean_of_present(each["macro_recall"]),
        "weighted_precision": over_examples["precision"],
        "weighted_recall": over_examples["recall"],
    }


def _by_label(tally: Tally) -> dict[str, Floats]:
    both = tally.support + tally.predicted
    return {
        "precision": _divide(tally.right, tally.predicted, where=tally.predicted > 0, otherwise=0.0),
        "recall": _divide(tally.right, tally.support, where=tally.support > 0, otherwise=0.0),
        "f1": _divide(2 * tally.right, both, where=both > 0, otherwise=0.0),
    }


def _divide(above: Floats, below: Floats, *, where: Booleans, otherwise: float = np.nan) -> Floats:
    quotient: Floats = np.divide(above, below, out=np.full(np.shape(above), otherwise), where=where)
    return quotient


def _mean_of_present(values: Floats) -> Floats:
    is_present = ~np.isnan(values)
    mean: Floats = np.where(is_present, values, 0.0).sum(axis=-1) / is_present.sum(axis=-1)
    return mean
