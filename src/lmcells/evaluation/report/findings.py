"""The contents of a report, computed once: tables, figures and the page only show them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation import calibrate, metrics
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import Comparison, compare_all, paper_intervals
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.rankers import ORACLE

if TYPE_CHECKING:
    from jinja2 import Environment

Curve = Sequence[tuple[float, float]]  # hours of pre-training, accuracy
Means = Mapping[str, float]  # metric -> mean over runs

# As in the paper: F1 is the mean over short forms, accuracy and NLL are over all examples.
METRICS = {"nll": "NLL", "accuracy": "Accuracy", "mean_weighted_f1": "Weighted F1", "macro_f1": "Macro F1"}
ACRONYM_COLUMNS = {
    "macro_precision": "mPr",
    "macro_recall": "mR",
    "macro_f1": "mF1",
    "weighted_precision": "wPr",
    "weighted_recall": "wR",
    "weighted_f1": "wF1",
}
PRECISION = 0.95
_N_CONFUSIONS = 6
_AROUND = 160  # characters of context on each side of a mistake


class Setting(NamedTuple):
    """A setting that was compared with others on one dataset, with its mean over runs there and here."""

    model: str
    is_chosen: bool
    n_seeds: int
    macro_f1_there: float
    here: Means  # empty in the report of the dataset that it was chosen on


class Published(NamedTuple):
    """A paper's figures for a model on the paper's own data."""

    model: str  # our name for it
    system: str  # the paper's name for it
    dataset: str
    nll: float | None  # None where the paper does not say
    accuracy: float | None
    weighted_f1: float | None
    macro_f1: float | None


class ModelFindings:
    """One model on one dataset, its predictions broken down."""

    def __init__(self, result: ModelResult) -> None:
        predictions = result.predictions
        answers = predictions.confidence, predictions.is_right
        self.name, self.result = result.model, result
        self.paper = paper_intervals(predictions)  # the paper's 100 samples of 80 %
        self.acronyms = metrics.acronym_table(predictions)
        self.by_candidates = metrics.by_number_of_candidates(predictions)
        wrong = [row for row in self.acronyms if row["accuracy"] < 1]
        worst = sorted(wrong, key=lambda row: (row["macro_f1"], row["short_form"]))[:_N_CONFUSIONS]
        self.confusions = [metrics.confusion_matrix(predictions, row["short_form"]) for row in worst]
        self.calibration_error = calibrate.expected_calibration_error(*answers)
        self.auroc = calibrate.auroc(*answers)  # of confidence, for being right
        self.coverage = calibrate.coverage_at_precision(*answers, precision=PRECISION)  # share answered
        self.reliability = calibrate.reliability_points(*answers)  # confidence, accuracy, examples
        self.coverage_curve = calibrate.coverage_curve(*answers)


@dataclass(frozen=True, eq=False)
class Findings:
    """All models on one dataset, their runs, and the paper's figures beside them."""

    results: Sequence[ModelResult]
    _: KW_ONLY
    dataset_name: str
    runs: Mapping[str, Sequence[metrics.Metrics]] = field(default_factory=dict)  # pre-training runs by model
    curves: Mapping[str, Curve] = field(default_factory=dict)
    # With and without the test notes.
    ablation: Mapping[str, tuple[Means, Means]] = field(default_factory=dict)
    chosen_on: str = ""  # the dataset that the settings were compared on, by macro F1
    settings: Sequence[Setting] = ()
    published: Sequence[Published] = ()
    oracles: Collection[str] = (ORACLE,)  # models that have seen the answers: never the best
    remarks: Sequence[str] = ()  # to the reader
    n_rounds: int = 5_000  # of the paired tests, which take most of the time
    n_resamples: int = 2_000

    def __post_init__(self) -> None:
        names = [result.model for result in self.results]
        if not names or len(set(names)) < len(names):
            found = ", ".join(names) or "none"
            raise InputError(f"A report needs models with distinct names; found: {found}.")

    @cached_property
    def models(self) -> tuple[ModelFindings, ...]:
        return tuple(map(ModelFindings, self.results))

    @cached_property
    def seeds(self) -> dict[str, dict[str, metrics.Row]]:
        """Worst, mean and best of each metric over the runs of a model."""
        return {model: metrics.summarise_seeds(runs) for model, runs in self.runs.items() if runs}

    @cached_property
    def compared(self) -> tuple[list[Comparison], str]:
        """The comparisons of all pairs of models; or none, and why they cannot be compared."""
        if len(self.results) == 1:
            return [], "There is only one model."
        predictions = [result.predictions for result in self.results]
        try:
            return compare_all(predictions, n_rounds=self.n_rounds, n_resamples=self.n_resamples), ""
        except InputError as error:
            return [], str(error)

    def shown(self, name: str) -> str:
        """Return the name of a model as tables and figures show it."""
        return f"{name} (oracle)" if name in self.oracles else name

    @property
    def leader(self) -> ModelFindings:
        """The model with the best macro F1 (the mean over its runs), except oracles; the first on a tie."""
        rivals = [model for model in self.models if model.name not in self.oracles] or list(self.models)
        return max(rivals, key=lambda model: self.mean(model.name, "macro_f1"))

    def mean(self, name: str, metric: str) -> float:
        """Return a metric of a model: the mean over its runs if there are several."""
        if name in self.seeds:
            return float(self.seeds[name][metric]["mean"])
        model = next(model for model in self.models if model.name == name)
        return float(getattr(model.result.metrics, metric))


def best_of(metric: str, values: Iterable[float]) -> float | None:
    """Return the best value of a metric, or None."""
    return (min if metric in metrics.LOWER_IS_BETTER else max)(values, default=None)


def by_short_form(models: Sequence[ModelFindings]) -> dict[str, list[metrics.Row | None]]:
    """Return the rows of all models side by side; None if a model has no example of a short form."""
    rows_of = [{row["short_form"]: row for row in model.acronyms} for model in models]
    return {name: [rows.get(name) for rows in rows_of] for name in sorted(set().union(*rows_of))}


def means_over_short_forms(rows: Sequence[metrics.Row]) -> dict[str, float]:
    """Return the last line of the paper's acronym table."""
    return {column: float(np.mean([row[column] for row in rows])) for column in ACRONYM_COLUMNS}


def templates(*, autoescape: bool) -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("lmcells.evaluation.report")
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, autoescape=autoescape
    )
    environment.filters |= {"hours": show_hours, "means": means_over_short_forms}
    return environment


def show_hours(hours: float | None) -> str:
    """Two decimals; two significant digits below 0.1."""
    return "" if hours is None else f"{hours:.2f}" if hours >= 0.1 else f"{hours:.2g}"


def wrong_answer(predictions: Predictions, row: int) -> metrics.Row:
    """A line of `tables/errors.csv`, without the text, which is in the dataset under the same id."""
    index = predictions.short_form_index[row]
    candidates = predictions.candidates[index]
    return {
        "id": predictions.ids[row],
        "note_id": predictions.note_ids[row],
        "short_form": predictions.short_forms[index],
        "long_form": candidates[predictions.truth[row]],
        "taken_for": candidates[predictions.predicted[row]],
        "p_taken": float(predictions.confidence[row]),
        "p_truth": float(np.exp(predictions.log_probability_of_truth[row])),
    }


def commonest_mistakes(result: ModelResult, *, limit: int) -> list[metrics.Row]:
    """The most frequent confusions, each with its most confident example and the text around it: patient data."""
    predictions = result.predictions
    kinds = np.stack([predictions.short_form_index, predictions.truth, predictions.predicted], axis=1)
    rows_of: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in np.flatnonzero(~predictions.is_right).tolist():
        rows_of[tuple(kinds[row].tolist())].append(row)
    found = []
    for _, rows in sorted(rows_of.items(), key=lambda item: (-len(item[1]), item[0]))[:limit]:
        mistake = wrong_answer(predictions, max(rows, key=lambda row: float(predictions.confidence[row])))
        example = result.contexts.get(mistake["id"])
        section = None if example is None else example.section
        window = None if example is None else window_around(example.text, example.start, example.end)
        found.append({**mistake, "n": len(rows), "section": section, "window": window})
    return found


def window_around(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return the text before, at and after `[start, end)`: whole words, single blanks, "…" where it was cut off."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    if start > _AROUND:
        before = "… " + before.partition(" ")[2]
    if end + _AROUND < len(text):
        after = after.rpartition(" ")[0] + " …"
    return re.sub(r"\s+", " ", before), text[start:end], re.sub(r"\s+", " ", after)
