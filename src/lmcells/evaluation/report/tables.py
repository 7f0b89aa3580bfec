"""The report's tables as CSV, unrounded."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.metrics import ACRONYM_METRICS, CANDIDATE_COLUMNS, SEED_COLUMNS, confusion_matrix
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.report.findings import (
    METRICS,
    PRECISION,
    Findings,
    ModelFindings,
    Published,
    wrong_answer,
)

_HEADLINE = (
    *METRICS,
    *("weighted_f1", "mean_nll", "mean_accuracy"),
    *("macro_precision", "macro_recall", "weighted_precision"),
)
_ENDS = ("", "_low", "_high", "_paper_low", "_paper_high")

Row = Sequence[Any]


def write_csv_tables(folder: Path, findings: Findings) -> None:
    """Write every table as `NAME.csv`; floats in full, so that they read back as the same number."""
    for name, columns, rows in _tables(findings):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns.split())
            writer.writerows(rows)


def _tables(findings: Findings) -> Iterator[tuple[str, str, Iterable[Row]]]:
    """Name, columns and rows of each table; an empty table has only a header."""
    models, results = findings.models, [(m.name, m.result) for m in findings.models]
    metric_columns = " ".join(name + end for name in _HEADLINE for end in _ENDS)
    columns = f"model n_examples n_short_forms {metric_columns} n_parameters hours_to_peak seconds"
    yield "headline", columns, map(_headline, models)
    at_k = ((name, *item) for name, r in results for item in r.metrics.accuracy_at_k.items())
    yield "accuracy_at_k", "model k accuracy", at_k
    by_candidates = ((m.name, *row.values()) for m in models for row in m.by_candidates)
    yield "number_of_candidates", f"model {' '.join(CANDIDATE_COLUMNS)}", by_candidates
    acronyms = ((m.name, *row.values()) for m in models for row in m.acronyms)
    yield "acronyms", f"model short_form count targets {' '.join(ACRONYM_METRICS)}", acronyms
    seeds = ((name, *row.values()) for name, summary in findings.seeds.items() for row in summary.values())
    yield "seeds", f"model {' '.join(SEED_COLUMNS)}", seeds
    compared = (
        (c.first, c.second, c.metric, c.difference, *_ends(c.interval), c.p_value, c.adjusted_p_value)
        for c in findings.compared[0]
    )
    yield "significance", "first second metric difference low high p_value adjusted_p_value", compared
    yield "confusion", "model short_form long_form taken_for n_examples", _confusions(models)
    yield "errors", "model id note_id short_form long_form taken_for p_taken p_truth", _errors(models)
    columns = f"model calibration_error auroc coverage_at_{100 * PRECISION:.0f}_precision"
    yield "calibration", columns, ((m.name, m.calibration_error, m.auroc, m.coverage) for m in models)
    reliability = ((m.name, *point) for m in models for point in m.reliability)
    yield "reliability", "model confidence accuracy n_examples", reliability
    excluded = ((name, *astuple(each)) for name, r in results for each in r.predictions.excluded)
    yield "excluded", f"model {' '.join(each.name for each in fields(Exclusion))}", excluded
    sections = ((name, mapping, n) for name, r in results for mapping, n in r.section_mapping.items())
    yield "sections", "model mapping n_examples", sections
    counts = "n_leaked_notes n_notes n_leaked_examples n_incomparable_notes"
    leakage = ((name, *map(r.leakage.get, counts.split())) for name, r in results if r.leakage is not None)
    yield "leakage", "model n_leaked_notes n_notes n_leaked_examples n_incomparable", leakage
    ablation = (
        (model, metric, within[metric], without[metric])
        for model, (within, without) in findings.ablation.items()
        for metric in METRICS
    )
    yield "ablation", "model metric with_test_notes without_test_notes", ablation
    curves = ((model, *point) for model, curve in findings.curves.items() for point in curve)
    yield "training_time", "model hours accuracy", curves
    # The last columns are empty on the dataset that the settings were compared on.
    selection = ((*s[:-1], *map(s.here.get, METRICS)) for s in findings.settings)
    yield "selection", f"setting chosen n_seeds macro_f1_there {' '.join(METRICS)}", selection
    yield "published", " ".join(Published._fields), findings.published


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _headline(model: ModelFindings) -> Row:
    result, metrics = model.result, model.result.metrics
    row: list[Any] = [model.name, metrics.n, metrics.n_short_forms]
    for name in _HEADLINE:
        row += [getattr(metrics, name), *_ends(result.intervals.get(name)), *_ends(model.paper[name])]
    return [*row, result.n_parameters, result.hours_to_peak, result.seconds]


def _confusions(models: Sequence[ModelFindings]) -> Iterator[Row]:
    """Every non-zero cell of every short form, not only of the worst."""
    for model in models:
        for short_form in model.result.predictions.short_forms:
            _, names, counts = confusion_matrix(model.result.predictions, short_form)
            for truth, taken in np.argwhere(counts).tolist():
                yield model.name, short_form, names[truth], names[taken], counts[truth, taken]


def _errors(models: Sequence[ModelFindings]) -> Iterator[Row]:
    for model in models:
        for row in np.flatnonzero(~model.result.predictions.is_right).tolist():
            yield model.name, *wrong_answer(model.result.predictions, row).values()
