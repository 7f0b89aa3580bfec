"""Everything a report says, computed once: tables, figures and the page only show it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lmcells.errors import InputError
from lmcells.evaluation.breakdown import (
    AcronymRow,
    CandidateCountRow,
    ConfusionMatrix,
    SeedSummary,
    acronym_table,
    by_number_of_candidates,
    confusion_matrix,
    summarise_seeds,
)
from lmcells.evaluation.calibrate import (
    CoverageCurve,
    ReliabilityPoint,
    auroc,
    coverage_at_precision,
    coverage_curve,
    expected_calibration_error,
    reliability_points,
)
from lmcells.evaluation.evaluate import Leakage, ModelResult
from lmcells.evaluation.intervals import Interval, paper_intervals
from lmcells.evaluation.metrics import Metrics
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.significance import Comparison, compare_all

# Everything a report says, computed once: tables, figures and the page only show it.


Curve = Sequence[tuple[float, float]]  # hours of pre-training, accuracy

N_CONFUSIONS = 6
PRECISION = 0.95


@dataclass(frozen=True, eq=False)
class Calibration:
    """Whether one model's probabilities mean what they say."""

    error: float  # expected calibration error
    auroc: float | None  # of confidence, for being right
    coverage: float  # answered at a precision of at least PRECISION
    reliability: list[ReliabilityPoint]
    curve: CoverageCurve


@dataclass(frozen=True, eq=False)
class ModelFindings:
    """One model, looked at from all sides."""

    result: ModelResult
    paper: dict[str, Interval]  # the paper's 100 samples of 80 %
    acronyms: list[AcronymRow]
    by_candidates: list[CandidateCountRow]
    confusions: list[ConfusionMatrix]  # of the worst short forms, worst first
    calibration: Calibration
    leakage: Leakage | None

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.result.model


@dataclass(frozen=True)
class Setting:
    """A setting that was compared with others on one dataset, and its means over runs there and here."""

    model: str
    is_chosen: bool
    n_seeds: int
    macro_f1_there: float
    here: Metrics | None  # None where this is the dataset that it was chosen on


@dataclass(frozen=True)
class Selection:
    """Settings that were compared on the dataset `chosen_on`, by macro F1."""

    chosen_on: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Published:
    """Figures that a paper gives for a model on its own data."""

    model: str  # of ours
    system: str  # as the paper calls it
    dataset: str
    nll: float | None  # None is what the paper does not say
    accuracy: float | None
    weighted_f1: float | None
    macro_f1: float | None


@dataclass(frozen=True)
class Study:
    """What a protocol adds to one evaluation: a choice of settings, published figures, and remarks to the reader."""

    selection: Selection | None = None
    published: tuple[Published, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Findings:
    """All models on one dataset."""

    dataset_name: str
    models: tuple[ModelFindings, ...]
    comparisons: list[Comparison]
    why_not_compared: str  # empty when they were
    seeds: dict[str, dict[str, SeedSummary]]  # model -> metric -> worst, mean, best
    curves: dict[str, Curve]
    ablation: dict[str, tuple[Metrics, Metrics]]  # model -> with and without the test notes in pre-training
    study: Study

    @property
    def leader_first(self) -> list[ModelFindings]:
        """The leader, then the others in their order."""
        return sorted(self.models, key=lambda model: model is not self.leader)

    @property
    def leader(self) -> ModelFindings:
        """The model with the best macro F1, the mean over its runs; of equals, the first."""
        return max(self.models, key=lambda model: self.mean(model.name, "macro_f1"))

    def mean(self, name: str, metric: str) -> float:
        """A metric of a model, the mean over its runs where there are several."""
        if name in self.seeds:
            return self.seeds[name][metric].mean
        model = next(model for model in self.models if model.name == name)
        return float(getattr(model.result.metrics, metric))


def find(
    results: Sequence[ModelResult],
    *,
    dataset_name: str,
    seeds: Mapping[str, Sequence[Metrics]],
    training_curves: Mapping[str, Curve],
    leakage: Leakage | None,
    ablation: Mapping[str, tuple[Metrics, Metrics]],
    study: Study,
    n_rounds: int,
    n_resamples: int,
) -> Findings:
    """Compute what the report shows; models that cannot be compared are reported one by one all the same."""
    comparisons: list[Comparison] = []
    why_not = "There is one model only."
    if len(results) > 1:
        try:
            everyone = [result.predictions for result in results]
            comparisons = compare_all(everyone, n_rounds=n_rounds, n_resamples=n_resamples)
            why_not = ""
        except InputError as error:
            why_not = str(error)
    is_checked = any(result.leakage is not None for result in results)
    return Findings(
        dataset_name=dataset_name,
        models=tuple(look_at(result, leakage=None if is_checked else leakage) for result in results),
        comparisons=comparisons,
        why_not_compared=why_not,
        seeds={model: summarise_seeds(runs) for model, runs in seeds.items() if runs},
        curves={model: curve for model, curve in training_curves.items() if curve},
        ablation=dict(ablation),
        study=study,
    )


def look_at(result: ModelResult, *, leakage: Leakage | None) -> ModelFindings:
    """Break one model's predictions down; `leakage` is of results that carry none."""
    predictions = result.predictions
    rows = acronym_table(predictions)
    worst = sorted((row for row in rows if row.accuracy < 1), key=lambda row: (row.macro_f1, row.short_form))
    return ModelFindings(
        result=result,
        paper=paper_intervals(predictions),
        acronyms=rows,
        by_candidates=by_number_of_candidates(predictions),
        confusions=[confusion_matrix(predictions, row.short_form) for row in worst[:N_CONFUSIONS]],
        calibration=calibrate(predictions),
        leakage=result.leakage or leakage,
    )


def calibrate(predictions: Predictions) -> Calibration:
    """Compare confidence with being right."""
    confidence, is_right = predictions.confidence, predictions.is_right
    return Calibration(
        error=expected_calibration_error(confidence, is_right),
        auroc=auroc(confidence, is_right),
        coverage=coverage_at_precision(confidence, is_right, precision=PRECISION),
        reliability=reliability_points(confidence, is_right),
        curve=coverage_curve(confidence, is_right),
    )


def means_over_short_forms(rows: Sequence[AcronymRow], columns: Sequence[str]) -> dict[str, float]:
    """The paper's last line of the acronym table."""
    return {column: float(np.mean([getattr(row, column) for row in rows])) for column in columns}


# The kinds of mistakes a model makes most, each with one example in its context.


_AROUND = 160  # characters of context on each side


@dataclass(frozen=True)
class Mistake:
    """One long form taken for another, `n` times, and the time the model was surest of it."""

    short_form: str
    long_form: str
    taken_for: str
    n: int
    example_id: str
    note_id: str | None
    p_taken: float
    p_truth: float
    section: str | None
    window: tuple[str, str, str] | None = field(repr=False)  # before, short form, after: patient data


def commonest_mistakes(result: ModelResult, *, limit: int) -> list[Mistake]:
    """The most frequent confusions of one long form with another, most frequent first."""
    predictions = result.predictions
    rows_of: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(~predictions.is_right):
        kind = (predictions.short_form_index[row], predictions.truth[row], predictions.predicted[row])
        rows_of[int(kind[0]), int(kind[1]), int(kind[2])].append(int(row))
    commonest = sorted(rows_of.items(), key=lambda item: (-len(item[1]), item[0]))[:limit]
    return [_mistake(result, kind, rows) for kind, rows in commonest]


def _mistake(result: ModelResult, kind: tuple[int, int, int], rows: list[int]) -> Mistake:
    predictions = result.predictions
    short_form, truth, taken = kind
    row = max(rows, key=lambda row: float(predictions.confidence[row]))
    id_ = predictions.ids[row]
    example = result.contexts.get(id_)
    return Mistake(
        short_form=predictions.short_forms[short_form],
        long_form=predictions.candidates[short_form][truth],
        taken_for=predictions.candidates[short_form][taken],
        n=len(rows),
        example_id=id_,
        note_id=predictions.note_ids[row],
        p_taken=float(predictions.confidence[row]),
        p_truth=float(np.exp(predictions.log_probability_of_truth[row])),
        section=None if example is None else example.section,
        window=None if example is None else window_around(example.text, example.start, example.end),
    )


def window_around(text: str, start: int, end: int) -> tuple[str, str, str]:
    """What stands before, at and after `[start, end)`: whole words, blanks as one, "…" where text was cut off."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    if start > _AROUND:
        before = "… " + before.partition(" ")[2]
    if end + _AROUND < len(text):
        after = after.rpartition(" ")[0] + " …"
    return _one_blank(before), text[start:end], _one_blank(after)


def _one_blank(text: str) -> str:
    """Newlines and runs of blanks become one blank; those at the ends stay."""
    inner = " ".join(text.split())
    if not inner:
        return " " if text else ""
    return " " * text[0].isspace() + inner + " " * text[-1].isspace()
