"""The report's tables as plain data, unrounded, and as CSV."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.evaluation.breakdown import AcronymRow, CandidateCountRow, SeedSummary
from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.report.findings import PRECISION, Findings, ModelFindings, Published

NAMES = {"nll": "NLL", "accuracy": "Accuracy", "weighted_f1": "Weighted F1", "macro_f1": "Macro F1"}
_OTHERS = (
    "mean_nll",
    "mean_accuracy",
    "mean_weighted_f1",
    "macro_precision",
    "macro_recall",
    "weighted_precision",
)

Row = Sequence[Any]


@dataclass(frozen=True)
class Table:
    """A file of the folder `tables`."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row]


def all_tables(findings: Findings) -> list[Table]:
    """Every table that is written as CSV; one with nothing to say has a header only."""
    each = findings.models
    return [
        _headline(each),
        _table("accuracy_at_k", "model k accuracy", _accuracy_at_k(each)),
        _by_model("number_of_candidates", CandidateCountRow, ((m.name, m.by_candidates) for m in each)),
        _by_model("acronyms", AcronymRow, ((m.name, m.acronyms) for m in each)),
        _by_model("seeds", SeedSummary, ((name, s.values()) for name, s in findings.seeds.items())),
        _significance(findings),
        _table("confusion", "model short_form long_form taken_for n_examples", _confusions(each)),
        _table("errors", "model id note_id short_form long_form taken_for p_taken p_truth", _errors(each)),
        _table(
            "calibration",
            f"model calibration_error auroc coverage_at_{PRECISION:.0%}_precision".replace("%", ""),
            ((m.name, m.calibration.error, m.calibration.auroc, m.calibration.coverage) for m in each),
        ),
        _table("reliability", "model confidence accuracy n_examples", _reliability(each)),
        _table("excluded", "model short_form long_form reason n_examples kept", _excluded(each)),
        _table("sections", "model mapping n_examples", _sections(each)),
        _table("leakage", "model n_leaked_notes n_notes n_leaked_examples n_incomparable", _leakage(each)),
        _table("ablation", "model metric with_test_notes without_test_notes", _ablation(findings)),
        _table("training_time", "model hours accuracy", _curves(findings)),
        _table("selection", f"setting chosen n_seeds macro_f1_there {' '.join(NAMES)}", _selection(findings)),
        _by_columns("published", Published, findings.study.published),
    ]


def write_csv(folder: Path, table: Table) -> None:
    """Write one table; floats in full, so that they read back as the same number."""
    with (folder / f"{table.name}.csv").open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)


def _table(name: str, columns: str, rows: Iterable[Row]) -> Table:
    return Table(name, tuple(columns.split()), list(rows))


def _by_model(name: str, kind: type[Any], rows_of: Iterable[tuple[str, Iterable[Any]]]) -> Table:
    """Rows of one dataclass, with the model before each."""
    columns = ("model", *(field.name for field in fields(kind)))
    return Table(name, columns, [(model, *astuple(row)) for model, rows in rows_of for row in rows])


def _by_columns(name: str, kind: type[Any], rows: Iterable[Any]) -> Table:
    """Rows of one dataclass."""
    return Table(name, tuple(field.name for field in fields(kind)), [astuple(row) for row in rows])


def _headline(models: Sequence[ModelFindings]) -> Table:
    names = (*NAMES, *_OTHERS)
    ends = ("", "_low", "_high", "_paper_low", "_paper_high")
    columns = ["model", "n_examples", "n_short_forms", *(name + end for name in names for end in ends)]
    rows: list[Row] = []
    for model in models:
        result = model.result
        row: list[Any] = [model.name, result.metrics.n, result.metrics.n_short_forms]
        for name in names:
            row += [
                getattr(result.metrics, name),
                *_ends(result.intervals.get(name)),
                *_ends(model.paper[name]),
            ]
        rows.append([*row, result.n_parameters, result.hours_to_peak, result.seconds])
    return Table("headline", (*columns, "n_parameters", "hours_to_peak", "seconds"), rows)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _accuracy_at_k(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        for k, accuracy in model.result.metrics.accuracy_at_k.items():
            yield model.name, k, accuracy


def _significance(findings: Findings) -> Table:
    columns = "first second metric difference low high p_value adjusted_p_value"
    rows = (
        (c.first, c.second, c.metric, c.difference, *_ends(c.interval), c.p_value, c.adjusted_p_value)
        for c in findings.comparisons
    )
    return _table("significance", columns, rows)


def _confusions(models: Sequence[ModelFindings]) -> Iterator[Row]:
    """Every non-zero cell of every short form, not only of the worst."""
    for model in models:
        predictions = model.result.predictions
        cells = np.stack([predictions.short_form_index, predictions.truth, predictions.predicted], axis=1)
        for (short_form, truth, taken), n in zip(*np.unique(cells, axis=0, return_counts=True), strict=True):
            names = predictions.candidates[short_form]
            yield model.name, predictions.short_forms[short_form], names[truth], names[taken], int(n)


def _errors(models: Sequence[ModelFindings]) -> Iterator[Row]:
    """Every wrong answer; without the text, which is in the dataset under the same id."""
    for model in models:
        predictions = model.result.predictions
        p_truth = np.exp(predictions.log_probability_of_truth)
        for row in np.flatnonzero(~predictions.is_right):
            short_form = predictions.short_form_index[row]
            names = predictions.candidates[short_form]
            yield (
                model.name,
                predictions.ids[row],
                predictions.note_ids[row],
                predictions.short_forms[short_form],
                names[predictions.truth[row]],
                names[predictions.predicted[row]],
                float(predictions.confidence[row]),
                float(p_truth[row]),
            )


def _reliability(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        for point in model.calibration.reliability:
            yield model.name, point.confidence, point.accuracy, point.n


def _excluded(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        for e in model.result.predictions.excluded:
            yield model.name, e.short_form, e.long_form, e.reason, e.n_examples, e.kept


def _sections(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        for mapping, n in model.result.section_mapping.items():
            yield model.name, mapping, n


def _leakage(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        if (found := model.leakage) is not None:
            yield model.name, len(found.leaked), found.n_notes, found.n_examples, found.n_incomparable


def _ablation(findings: Findings) -> Iterator[Row]:
    for model, (within, without) in findings.ablation.items():
        for metric in NAMES:
            yield model, metric, getattr(within, metric), getattr(without, metric)


def _curves(findings: Findings) -> Iterator[Row]:
    for model, curve in findings.curves.items():
        for hours, accuracy in curve:
            yield model, hours, accuracy


def _selection(findings: Findings) -> Iterator[Row]:
    """The settings that were compared; the last columns are empty on the dataset that they were chosen on."""
    if (selection := findings.study.selection) is not None:
        for s in selection.settings:
            here = [None if s.here is None else getattr(s.here, metric) for metric in NAMES]
            yield s.model, s.is_chosen, s.n_seeds, s.macro_f1_there, *here
