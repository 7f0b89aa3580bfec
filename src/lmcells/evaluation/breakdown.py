"""Where a model is good and where it is not: by acronym, by sense, by number of candidates, by seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmcells.errors import InputError, nearest
from lmcells.evaluation.metrics import LOWER_IS_BETTER, Metrics, headline, tally, within_short_forms
from lmcells.evaluation.predictions import Integers, Predictions


@dataclass(frozen=True)
class AcronymRow:
    """One line of the paper's acronym table: mPr mR mF1 wPr wR wF1 (wR is the accuracy), and NLL."""

    short_form: str
    count: int
    targets: int
    macro_precision: float
    macro_recall: float
    macro_f1: float
    weighted_precision: float
    weighted_recall: float
    weighted_f1: float
    accuracy: float
    nll: float


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """`counts[i, j]`: examples of `long_forms[i]` that were taken for `long_forms[j]`."""

    short_form: str
    long_forms: tuple[str, ...]
    counts: Integers  # (n_candidates, n_candidates)


@dataclass(frozen=True)
class CandidateCountRow:
    """Metrics over the short forms that have `n_candidates` long forms."""

    n_candidates: int
    n_short_forms: int
    n_examples: int
    accuracy: float
    weighted_f1: float
    macro_f1: float
    nll: float


@dataclass(frozen=True)
class SeedSummary:
    """A metric over training runs; worst and best follow the metric's direction: a low NLL is good."""

    metric: str
    n_seeds: int
    worst: float
    mean: float
    best: float
    standard_deviation: float | None  # None for a single run


def acronym_table(predictions: Predictions) -> list[AcronymRow]:
    """One row per short form, in alphabetical order."""
    counts = tally(predictions)
    each = within_short_forms(counts)
    return [
        AcronymRow(
            short_form=short_form,
            count=int(counts.n_examples[index]),
            targets=len(predictions.candidates[index]),
            **{name: float(values[index]) for name, values in each.items()},
        )
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


def by_number_of_candidates(predictions: Predictions) -> list[CandidateCountRow]:
    """The paper's "effect of the number of target expansions", fewest candidates first."""
    widths = np.array([len(names) for names in predictions.candidates], dtype=np.int64)
    rows = []
    for width in np.unique(widths):
        here = widths[predictions.short_form_index] == width
        values = headline(tally(predictions, here.astype(np.float64)))
        metrics = {name: float(values[name]) for name in ("accuracy", "weighted_f1", "macro_f1", "nll")}
        rows.append(CandidateCountRow(int(width), int((widths == width).sum()), int(here.sum()), **metrics))
    return rows


def summarise_seeds(runs: Sequence[Metrics]) -> dict[str, SeedSummary]:
    """Worst, mean and best of every metric over runs of one model; accuracy@k as "accuracy_at_k"."""
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
        found[name] = SeedSummary(name, len(runs), worst, float(np.mean(of_runs)), best, spread)
    return found
