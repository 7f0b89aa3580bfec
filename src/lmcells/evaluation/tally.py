"""Weighted counts of true, predicted and rightly predicted long forms: what every metric is computed from.

A *label* is a long form of one short form. Labels are numbered through, short form after short form, so a resample
of the examples is a vector of weights and its counts are four calls of `bincount`. Counts may have leading
dimensions (one row a resample); the metrics of `metrics.py` are computed for all rows at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.evaluation.predictions import Floats, Integers, Predictions

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
        """Count the examples, each as often as its weight says (once, without weights)."""
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
    support: Floats  # (..., n_labels) examples whose truth it is
    predicted: Floats  # (..., n_labels) examples it was predicted for
    right: Floats  # (..., n_labels) both
    loss: Floats  # (..., n_short_forms)

    @classmethod
    def stack(cls, tallies: Iterable["Tally"]) -> "Tally":
        """One tally whose first dimension runs over those given."""
        rows = list(tallies)
        names = ("support", "predicted", "right", "loss")
        return cls(rows[0].first_label, *(np.stack([getattr(row, name) for row in rows]) for name in names))

    def by_short_form(self, values: Floats) -> Floats:
        """Sum over the labels of each short form."""
        summed: Floats = np.add.reduceat(
            values, self.first_label, axis=-1
        )  # (..., n_labels) -> (..., n_short_forms)
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
