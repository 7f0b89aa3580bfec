r"""The paper's tables in LaTeX, for `\input`; they need the packages booktabs, multirow and longtable."""

import re
from collections.abc import Callable, Mapping, Sequence

from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.report.findings import Findings, ModelFindings, Selection, means_over_short_forms

HEADLINE = {"nll": "NLL", "accuracy": "Acc", "weighted_f1": "W F1", "macro_f1": "M F1"}
ACRONYM_COLUMNS = {
    "macro_precision": "mPr",
    "macro_recall": "mR",
    "macro_f1": "mF1",
    "weighted_precision": "wPr",
    "weighted_recall": "wR",
    "weighted_f1": "wF1",
}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}
_NEEDS = "% needs: booktabs, multirow, longtable"
_CAPTION_END = "NLL is neg log likelihood, W/M weighted/macro."


def escape(text: str) -> str:
    """Text as LaTeX prints it; control characters and newlines become blanks."""
    printable = (character if character.isprintable() else " " for character in text)
    return "".join(_SPECIAL.get(character, character) for character in printable)


def show_hours(hours: float) -> str:
    """Two decimals, and more where that would leave nothing."""
    return f"{hours:.2f}" if hours >= 0.1 else f"{hours:.2g}"


def main_table(findings: Findings) -> str:
    """Models by NLL, Acc, W F1, M F1; means over pre-training runs where there are several."""
    values = {
        model.name: {metric: findings.mean(model.name, metric) for metric in HEADLINE}
        for model in findings.models
    }
    n_runs = {findings.seeds[name]["nll"].n_seeds if name in findings.seeds else 1 for name in values}
    if n_runs == {1}:
        caption = "One pre-training run."
    elif len(n_runs) == 1:
        caption = f"Mean across {n_runs.pop()} pre-training runs."
    else:
        caption = "Mean across pre-training runs, where there are several."
    lines = [
        rf"\multicolumn{{5}}{{c}}{{\textbf{{{escape(findings.dataset_name)}}}}} \\",
        r"\toprule",
        f"Model & {' & '.join(HEADLINE.values())} " + r"\\",
        r"\midrule",
        *(f"{escape(name)} & {' & '.join(cells)} " + r"\\" for name, cells in _bold_best(values).items()),
    ]
    return _floating(
        lines, "c|cccc", caption=f"{caption} {_CAPTION_END}", label=_label("acronym-table", findings)
    )


def seed_table(findings: Findings) -> str:
    """Worst, mean and best over pre-training runs."""
    n_runs = sorted({summary["nll"].n_seeds for summary in findings.seeds.values()})
    many = f"{n_runs[0]}" if len(n_runs) == 1 else f"{n_runs[0]} to {n_runs[-1]}"
    lines = [
        rf"\multicolumn{{6}}{{c}}{{\textbf{{{escape(findings.dataset_name)}}}}} \\",
        r"\toprule",
        f"& Model & {' & '.join(HEADLINE.values())} " + r"\\",
    ]
    for part in ("worst", "mean", "best"):
        values = {
            name: {metric: getattr(summary[metric], part) for metric in HEADLINE}
            for name, summary in findings.seeds.items()
        }
        lines += [r"\midrule", rf"\multirow{{{len(values)}}}{{*}}{{{part.capitalize()}}}"]
        lines += [
            f"& {escape(name)} & {' & '.join(cells)} " + r"\\" for name, cells in _bold_best(values).items()
        ]
    caption = f"Aggregated across {many} pre-training runs. {_CAPTION_END}"
    return _floating(lines, "cc|cccc", caption=caption, label=_label("acronym-table-full", findings))


def cost_table(findings: Findings) -> str:
    """Parameters without embeddings, and hours of pre-training to the peak."""
    lines = ["Model & Parameters & Hours to peak " + r"\\", r"\midrule"]
    for model in findings.models:
        n, hours = model.result.n_parameters, model.result.hours_to_peak
        shown = ["--" if n is None else f"{n:,}", "--" if hours is None else show_hours(hours)]
        lines.append(f"{escape(model.name)} & {' & '.join(shown)} " + r"\\")
    caption = "Number of parameters without embeddings, and hours of pre-training to the best performance."
    return _floating(lines, "lrr", caption=caption, label=_label("cost-table", findings))


def ablation_table(findings: Findings) -> str:
    """Metrics with and without the test notes in pre-training."""
    lines = [f"Model & Test notes & {' & '.join(HEADLINE.values())} " + r"\\"]
    for name, pair in findings.ablation.items():
        lines.append(r"\midrule")
        for told, metrics in zip(("in", "out"), pair, strict=True):
            cells = " & ".join(f"{getattr(metrics, metric):.2f}" for metric in HEADLINE)
            lines.append(f"{escape(name)} & {told} & {cells} " + r"\\")
    caption = f"Test notes in and out of pre-training, {escape(findings.dataset_name)}. {_CAPTION_END}"
    return _floating(lines, "lc|cccc", caption=caption, label=_label("leakage-table", findings))


def selection_table(findings: Findings, selection: Selection) -> str:
    """Settings by their macro F1 where they were chosen, and the metrics here."""
    there = escape(selection.chosen_on)
    lines = [f"Setting & M F1, {there} & {' & '.join(HEADLINE.values())} " + r"\\", r"\midrule"]
    for setting in selection.settings:
        cells = [f"{setting.macro_f1_there:.2f}"]
        cells += ["--" if setting.here is None else f"{getattr(setting.here, m):.2f}" for m in HEADLINE]
        name = rf"\textbf{{{escape(setting.model)}}}" if setting.is_chosen else escape(setting.model)
        lines.append(f"{name} & {' & '.join(cells)} " + r"\\")
    caption = (
        f"Settings chosen on {there} (bold) by macro F1, and {escape(findings.dataset_name)}. {_CAPTION_END}"
    )
    return _floating(lines, "l|c|cccc", caption=caption, label=_label("selection-table", findings))


def acronym_tables(findings: Findings) -> str:
    """Performance by short form, two models side by side as in the paper, one table after the other."""
    models = findings.models
    pairs = (models[start : start + 2] for start in range(0, len(models), 2))
    return "\n".join(_acronym_table(pair, findings.dataset_name) for pair in pairs)


def _acronym_table(models: Sequence[ModelFindings], dataset_name: str) -> str:
    rows_of = [{row.short_form: row for row in model.acronyms} for model in models]
    known = {short_form: row for rows in reversed(rows_of) for short_form, row in rows.items()}
    n_columns = len(ACRONYM_COLUMNS)
    heading = "".join(rf" & \multicolumn{{{n_columns}}}{{c}}{{\textbf{{{escape(m.name)}}}}}" for m in models)
    names = " & ".join(ACRONYM_COLUMNS.values())
    head = f"Acronym & Count & Targets{f' & {names}' * len(models)} " + r"\\"
    lines = [
        _NEEDS,
        r"\begin{small}",
        r"\begin{longtable}{lrr" + ("|" + "c" * n_columns) * len(models) + "}",
        rf"\caption{{Performance by acronym, {escape(dataset_name)}.}} \\",
        r"\toprule",
        f"& &{heading} " + r"\\",
        head,
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        head,
        r"\midrule",
        r"\endhead",
    ]
    for short_form in sorted(known):
        cells = [escape(short_form), str(known[short_form].count), str(known[short_form].targets)]
        for rows in rows_of:
            row = rows.get(short_form)
            cells += ["--" if row is None else f"{getattr(row, name):.2f}" for name in ACRONYM_COLUMNS]
        lines.append(" & ".join(cells) + r" \\")
    means = [
        rf"\textbf{{{value:.2f}}}"
        for model in models
        for value in means_over_short_forms(model.acronyms, list(ACRONYM_COLUMNS)).values()
    ]
    lines += [
        r"\midrule",
        r"\textbf{AVG} & -- & -- & " + " & ".join(means) + r" \\",
        r"\bottomrule",
        r"\end{longtable}",
        r"\end{small}",
        "",
    ]
    return "\n".join(lines)


def _floating(lines: Sequence[str], columns: str, *, caption: str, label: str) -> str:
    return "\n".join(
        [
            _NEEDS,
            r"\begin{table}[t]",
            rf"\caption{{{caption}}}",
            rf"\label{{{label}}}",
            r"\begin{center}",
            r"\begin{scriptsize}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{scriptsize}",
            r"\end{center}",
            r"\end{table}",
            "",
        ]
    )


def _label(name: str, findings: Findings) -> str:
    """Labels of several datasets in one document must differ."""
    return f"{name}-{re.sub('[^A-Za-z0-9]+', '-', findings.dataset_name)}"


def _bold_best(values: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Two decimals; the best of a column is bold, with those that look equal."""
    best: dict[str, str] = {}
    for metric in HEADLINE:
        better: Callable[..., float] = min if metric in LOWER_IS_BETTER else max
        best[metric] = f"{better(row[metric] for row in values.values()):.2f}"
    return {
        name: [
            rf"\textbf{{{row[metric]:.2f}}}" if f"{row[metric]:.2f}" == best[metric] else f"{row[metric]:.2f}"
            for metric in HEADLINE
        ]
        for name, row in values.items()
    }
