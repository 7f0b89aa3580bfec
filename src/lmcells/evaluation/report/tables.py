r"""The report's tables: all of them as CSV, unrounded, and the paper's in LaTeX.

The LaTeX is for `\input` and needs the packages booktabs, multirow and longtable.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.metrics import ACRONYM_METRICS, CANDIDATE_COLUMNS, SEED_COLUMNS, confusion_matrix
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.report.findings import (
    ACRONYM_COLUMNS,
    METRICS,
    PRECISION,
    Findings,
    Means,
    ModelFindings,
    Published,
    best_of,
    by_short_form,
    templates,
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


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def latex_tables(findings: Findings) -> dict[str, str]:
    """Return every table that has something to show, by its name."""
    delimiters = {"block": ("<%", "%>"), "variable": ("<<", ">>"), "comment": ("<#", "#>")}
    named = {f"{kind}_start_string": start for kind, (start, _) in delimiters.items()}
    named |= {f"{kind}_end_string": end for kind, (_, end) in delimiters.items()}
    environment = templates(autoescape=False, **named)  # names go through the filter `tex`
    environment.filters |= {"tex": escape, "cells": _cells, "by_short_form": by_short_form}
    models, seeds = findings.models, findings.seeds
    template: Any = environment.get_template("tables.tex").make_module(
        {
            "findings": findings,
            # Labels of several datasets in one document must differ.
            "dataset_label": re.sub("[^A-Za-z0-9]+", "-", findings.dataset_name),
            "headline": ("NLL", "Acc", "W F1", "M F1"),
            "columns": ACRONYM_COLUMNS,
        }
    )
    n_runs = sorted({seeds[m.name]["nll"]["n_seeds"] if m.name in seeds else 1 for m in models})
    means = {m.name: {k: findings.mean(m.name, k) for k in METRICS} for m in models}
    pairs = [models[start : start + 2] for start in range(0, len(models), 2)]  # side by side, as in the paper
    tables = {
        "main": template.main(_bold_best(means, findings.oracles), n_runs),
        "acronyms": "\n".join(map(template.acronyms, pairs)),
        "cost": template.cost(),
    }
    if seeds:
        parts = {
            part: {name: {k: found[k][part] for k in METRICS} for name, found in seeds.items()}
            for part in ("worst", "mean", "best")
        }
        bold = {part: _bold_best(each, findings.oracles) for part, each in parts.items()}
        tables["seeds"] = template.seeds(bold, sorted({each["nll"]["n_seeds"] for each in seeds.values()}))
    if findings.ablation:
        tables["ablation"] = template.ablation()
    if findings.settings:
        tables["selection"] = template.selection()
    return tables


def escape(text: str) -> str:
    """Escape text for LaTeX; control characters and newlines become blanks."""
    printable = (character if character.isprintable() else " " for character in text)
    return "".join(_SPECIAL.get(character, character) for character in printable)


def _cells(means: Means) -> list[str]:
    return [f"{means[metric]:.2f}" if means else "--" for metric in METRICS]


def _bold_best(values: Mapping[str, Means], oracles: Collection[str]) -> dict[str, list[str]]:
    """Two decimals; the best values of a column, as displayed, are bold, except oracles."""
    rivals = [row for name, row in values.items() if name not in oracles] or [*values.values()]
    best = [f"{best_of(metric, (row[metric] for row in rivals)):.2f}" for metric in METRICS]
    found = {}
    for name, row in values.items():
        cells = zip(_cells(row), best, strict=True)
        found[name] = [rf"\textbf{{{c}}}" if c == b and name not in oracles else c for c, b in cells]
    return found
