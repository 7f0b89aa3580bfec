r"""The paper's tables in LaTeX, for `\input`. They need the packages booktabs, multirow and longtable."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from lmcells.evaluation.report.findings import (
    ACRONYM_COLUMNS,
    METRICS,
    Findings,
    Means,
    ModelFindings,
    best_of,
    by_short_form,
    means_over_short_forms,
    show_hours,
)

_METRICS = ("NLL", "Acc", "W F1", "M F1")  # METRICS in short
_ABOUT = "NLL is neg log likelihood, W/M weighted/macro."
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def latex_tables(findings: Findings) -> dict[str, str]:
    """Return every table that has something to show, by its name."""
    models = findings.models
    pairs = [models[start : start + 2] for start in range(0, len(models), 2)]  # side by side, as in the paper
    acronyms = "\n".join(_acronyms(findings, pair) for pair in pairs)
    return {"acronyms": acronyms, **dict(_floating_tables(findings))}


def _floating_tables(findings: Findings) -> Iterator[tuple[str, str]]:
    models, seeds, oracles = findings.models, findings.seeds, findings.oracles
    here, chosen_on = escape(findings.dataset_name), escape(findings.chosen_on)
    titles = [[rf"\multicolumn{{{n}}}{{c}}{{\textbf{{{here}}}}} \\", r"\toprule"] for n in (5, 6)]

    runs = sorted({seeds[each.name]["nll"]["n_seeds"] if each.name in seeds else 1 for each in models})
    told = "One pre-training run." if runs == [1] else f"Mean across {runs[0]} pre-training runs."
    told = told if len(runs) == 1 else "Mean across pre-training runs, where there are several."
    means = _bold_best({m.name: {k: findings.mean(m.name, k) for k in METRICS} for m in models}, oracles)
    rows = [_row(escape(findings.shown(name)), *cells) for name, cells in means.items()]
    parts = [[*titles[0], _row("Model", *_METRICS)], rows]
    yield "main", _floating(findings, "c|cccc", f"{told} {_ABOUT}", "acronym-table", parts)

    rows = []
    for model in models:
        n, hours = model.result.n_parameters, show_hours(model.result.hours_to_peak)
        rows.append(_row(escape(findings.shown(model.name)), "--" if n is None else f"{n:,}", hours or "--"))
    caption = "Number of parameters without embeddings, and hours of pre-training to the best performance."
    parts = [[_row("Model", "Parameters", "Hours to peak")], rows]
    yield "cost", _floating(findings, "lrr", caption, "cost-table", parts)

    if seeds:
        parts = [[*titles[1], "& " + _row("Model", *_METRICS)]]
        for part in ("worst", "mean", "best"):
            values = {name: {k: found[k][part] for k in METRICS} for name, found in seeds.items()}
            bold = _bold_best(values, oracles).items()
            rows = ["& " + _row(escape(findings.shown(name)), *cells) for name, cells in bold]
            parts.append([rf"\multirow{{{len(rows)}}}{{*}}{{{part.capitalize()}}}", *rows])
        runs = sorted({found["nll"]["n_seeds"] for found in seeds.values()})
        told = " to ".join(str(n) for n in dict.fromkeys((runs[0], runs[-1])))
        caption = f"Aggregated across {told} pre-training runs. {_ABOUT}"
        yield "seeds", _floating(findings, "cc|cccc", caption, "acronym-table-full", parts)

    if findings.ablation:
        parts = [[_row("Model", "Test notes", *_METRICS)]]
        for name, (within, without) in findings.ablation.items():
            each = {"in": within, "out": without}.items()
            parts.append([_row(escape(name), where, *_cells(of_model)) for where, of_model in each])
        caption = f"Test notes in and out of pre-training, {here}. {_ABOUT}"
        yield "ablation", _floating(findings, "lc|cccc", caption, "leakage-table", parts)

    if findings.settings:
        rows = []
        for setting in findings.settings:
            name = rf"\textbf{{{escape(setting.model)}}}" if setting.is_chosen else escape(setting.model)
            rows.append(_row(name, f"{setting.macro_f1_there:.2f}", *_cells(setting.here)))
        caption = f"Settings chosen on {chosen_on} (bold) by macro F1, and {here}. {_ABOUT}"
        parts = [[_row("Setting", f"M F1, {chosen_on}", *_METRICS)], rows]
        yield "selection", _floating(findings, "l|c|cccc", caption, "selection-table", parts)


def _floating(findings: Findings, columns: str, caption: str, label: str, parts: list[list[str]]) -> str:
    """A floating table, whose parts are lines, with a rule between two parts."""
    body = "\n\\midrule\n".join("\n".join(part) for part in parts)
    dataset = re.sub("[^A-Za-z0-9]+", "-", findings.dataset_name)  # labels in one document must differ
    return rf"""% needs: booktabs, multirow, longtable
\begin{{table}}[t]
\caption{{{caption}}}
\label{{{label}-{dataset}}}
\begin{{center}}
\begin{{scriptsize}}
\begin{{tabular}}{{{columns}}}
\toprule
{body}
\bottomrule
\end{{tabular}}
\end{{scriptsize}}
\end{{center}}
\end{{table}}
"""


def _acronyms(findings: Findings, models: Sequence[ModelFindings]) -> str:
    """A long table of one or two models side by side."""

    def bold(model: ModelFindings, cell: str) -> str:
        return cell if model.name in findings.oracles else rf"\textbf{{{cell}}}"

    n, named = len(ACRONYM_COLUMNS), [(model, escape(findings.shown(model.name))) for model in models]
    columns = "lrr" + ("|" + "c" * n) * len(models)
    best = ": best pre-training run of each model" if findings.seeds else ""
    titles = "& & & " + _row(*(rf"\multicolumn{{{n}}}{{c}}{{{bold(*each)}}}" for each in named))
    head = _row("Acronym", "Count", "Targets", *[*ACRONYM_COLUMNS.values()] * len(models))
    rows = []
    for short_form, of_models in by_short_form(models).items():
        first = next(filter(None, of_models))
        cells = (f"{row[key]:.2f}" if row else "--" for row in of_models for key in ACRONYM_COLUMNS)
        rows.append(_row(escape(short_form), str(first["count"]), str(first["targets"]), *cells))
    means = ((model, means_over_short_forms(model.acronyms)) for model in models)
    average = (bold(model, f"{mean:.2f}") for model, of_model in means for mean in of_model.values())
    body = "\n".join([*rows, r"\midrule", _row(r"\textbf{AVG}", "--", "--", *average)])
    return rf"""% needs: booktabs, multirow, longtable
\begin{{small}}
\begin{{longtable}}{{{columns}}}
\caption{{Performance by acronym, {escape(findings.dataset_name)}{best}.}} \\
\toprule
{titles}
{head}
\midrule
\endfirsthead
\toprule
{head}
\midrule
\endhead
{body}
\bottomrule
\end{{longtable}}
\end{{small}}
"""


def _row(*cells: str) -> str:
    return " & ".join(cells) + r" \\"


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
