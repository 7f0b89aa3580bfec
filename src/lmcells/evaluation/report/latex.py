r"""The paper's tables in LaTeX, for `\input`; they need the packages booktabs, multirow and longtable."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lmcells.evaluation.report.findings import (
    ACRONYM_COLUMNS,
    Findings,
    Means,
    ModelFindings,
    best_of,
    by_short_form,
    means_over_short_forms,
    show_hours,
)

# As in the paper: weighted F1 is the mean over short forms, the others are over all examples.
_HEADLINE = {"nll": "NLL", "accuracy": "Acc", "mean_weighted_f1": "W F1", "macro_f1": "M F1"}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def latex_tables(findings: Findings) -> dict[str, str]:
    """Return every table that has something to show, by its name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lmcells.evaluation.report"),
        autoescape=False,  # names go through the filter `tex`
        undefined=StrictUndefined,
        trim_blocks=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.filters["tex"] = escape
    template: Any = environment.get_template("tables.tex").make_module(
        {
            "dataset": findings.dataset_name,
            # Labels of several datasets in one document must differ.
            "dataset_label": re.sub("[^A-Za-z0-9]+", "-", findings.dataset_name),
            "headline": _HEADLINE,
            "columns": ACRONYM_COLUMNS,
        }
    )
    models, seeds = findings.models, findings.seeds
    means = {m.name: {k: findings.mean(m.name, k) for k in _HEADLINE} for m in models}
    pairs = [models[start : start + 2] for start in range(0, len(models), 2)]  # side by side, as in the paper
    cost = (
        (
            model.name,
            "--" if (n := model.result.n_parameters) is None else f"{n:,}",
            "--" if (hours := model.result.hours_to_peak) is None else show_hours(hours),
        )
        for model in models
    )
    tables = {
        "main": template.main(_bold_best(means, findings.oracles), _runs(findings)),
        "acronyms": "\n".join(template.acronyms(*_acronyms(pair)) for pair in pairs),
        "cost": template.cost(cost),
    }
    if seeds:
        n_runs = sorted({summary["nll"]["n_seeds"] for summary in seeds.values()})
        many = f"{n_runs[0]}" if len(n_runs) == 1 else f"{n_runs[0]} to {n_runs[-1]}"
        parts = {
            part: {name: {k: found[k][part] for k in _HEADLINE} for name, found in seeds.items()}
            for part in ("worst", "mean", "best")
        }
        tables["seeds"] = template.seeds(
            {p.capitalize(): _bold_best(each, findings.oracles) for p, each in parts.items()}, many
        )
    if findings.ablation:
        tables["ablation"] = template.ablation(
            (name, *map(_cells, pair)) for name, pair in findings.ablation.items()
        )
    if findings.settings:
        rows = [(s, [f"{s.macro_f1_there:.2f}", *_cells(s.here)]) for s in findings.settings]
        tables["selection"] = template.selection(findings.chosen_on, rows)
    return tables


def escape(text: str) -> str:
    """Return text as LaTeX prints it; control characters and newlines become blanks."""
    printable = (character if character.isprintable() else " " for character in text)
    return "".join(_SPECIAL.get(character, character) for character in printable)


def _cells(means: Means) -> list[str]:
    return [f"{means[metric]:.2f}" if means else "--" for metric in _HEADLINE]


def _runs(findings: Findings) -> str:
    n_runs = {
        findings.seeds[model.name]["nll"]["n_seeds"] if model.name in findings.seeds else 1
        for model in findings.models
    }
    if n_runs == {1}:
        return "One pre-training run."
    if len(n_runs) == 1:
        return f"Mean across {n_runs.pop()} pre-training runs."
    return "Mean across pre-training runs, where there are several."


def _bold_best(values: Mapping[str, Mapping[str, float]], oracles: Collection[str]) -> dict[str, list[str]]:
    """Two decimals; the best of a column is bold, and so are those that look equal, but no oracle."""
    rivals = [row for name, row in values.items() if name not in oracles] or [*values.values()]
    best = {metric: f"{best_of(metric, (row[metric] for row in rivals)):.2f}" for metric in _HEADLINE}
    shown = {name: {metric: f"{row[metric]:.2f}" for metric in _HEADLINE} for name, row in values.items()}
    return {
        name: [
            rf"\textbf{{{cell}}}" if cell == best[metric] and name not in oracles else cell
            for metric, cell in cells.items()
        ]
        for name, cells in shown.items()
    }


def _acronyms(models: Sequence[ModelFindings]) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Names of the models, cells by short form, and the means."""
    cells = {}
    for short_form, rows in by_short_form(models).items():
        first = next(filter(None, rows))
        values = [None if row is None else row[key] for row in rows for key in ACRONYM_COLUMNS]
        shown = ["--" if value is None else f"{value:.2f}" for value in values]
        cells[short_form] = [str(first["count"]), str(first["targets"]), *shown]
    means = [f"{value:.2f}" for m in models for value in means_over_short_forms(m.acronyms).values()]
    return [model.name for model in models], cells, means
