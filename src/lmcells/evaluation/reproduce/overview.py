"""All datasets at a glance: `results.md`, whose tables go into a README, and `index.html` with links to the reports."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmcells.evaluation.breakdown import SeedSummary, summarise_seeds
from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.report import Published
from lmcells.evaluation.report.html_table import Cell, Number, html_table
from lmcells.evaluation.report.latex import show_hours
from lmcells.evaluation.report.markup import Markup, element
from lmcells.evaluation.report.page import document
from lmcells.evaluation.reproduce.gathering import Gathered
from lmcells.files import atomic_write

_METRICS = {"accuracy": "accuracy", "weighted_f1": "weighted F1", "macro_f1": "macro F1", "nll": "NLL"}
_SHOWN = ("MIMIC", "CASI")  # of the paper's; the third cannot be had


@dataclass(frozen=True, eq=False)
class DatasetOverview:
    """A dataset's folder, its title, and what was found on it."""

    name: str
    title: str
    gathered: Gathered


@dataclass(frozen=True)
class _Row:
    """A model on a dataset: the text of its cells, the best ones marked, and the paper's figures."""

    model: str
    cells: dict[str, tuple[SeedSummary, bool]]  # metric -> summary, and whether its mean is the best
    n_parameters: str
    hours: str
    paper: dict[str, str]


def write_overview(
    folder: Path,
    datasets: Sequence[DatasetOverview],
    *,
    published: Sequence[Published],
    oracles: Collection[str] = (),
) -> None:
    """Write both files; models that have seen the answers, the oracles, are never the best."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(each, _rows(each.gathered, published, oracles)) for each in datasets]
    with atomic_write(folder / "results.md") as temporary:
        parts = [_markdown(each, of_dataset, has_paper=bool(published)) for each, of_dataset in rows]
        temporary.write_text("\n".join(parts), encoding="utf-8")
    body = [element("h1", "Acronym expansion: all datasets")]
    body += [_section(each, of_dataset, has_paper=bool(published)) for each, of_dataset in rows]
    with atomic_write(folder / "index.html") as temporary:
        temporary.write_text(document("lmcells: results", element("main", *body)), encoding="utf-8")


def _rows(gathered: Gathered, published: Sequence[Published], oracles: Collection[str]) -> list[_Row]:
    summaries = {name: summarise_seeds([run.metrics for run in runs]) for name, runs in gathered.runs.items()}
    rivals = [summary for name, summary in summaries.items() if name not in oracles]
    best = {
        metric: (min if metric in LOWER_IS_BETTER else max)(
            (each[metric].mean for each in rivals), default=None
        )
        for metric in _METRICS
    }
    rows = []
    for name, runs in gathered.runs.items():
        hours = [run.hours_to_peak for run in runs if run.hours_to_peak is not None]
        n_parameters = runs[0].n_parameters
        theirs = {each.dataset: each for each in published if each.model == name}
        rows.append(
            _Row(
                model=f"{name} (oracle)" if name in oracles else name,
                cells={
                    m: (summaries[name][m], name not in oracles and summaries[name][m].mean == best[m])
                    for m in _METRICS
                },
                n_parameters="" if n_parameters is None else f"{n_parameters:,}",
                hours=show_hours(float(np.mean(hours))) if hours else "",
                paper={dataset: _paper(theirs.get(dataset)) for dataset in _SHOWN},
            )
        )
    return rows


def _paper(found: Published | None) -> str:
    if found is None:
        return ""
    return " / ".join(
        "–" if value is None else _short(value, 2) for value in (found.accuracy, found.macro_f1)
    )


def _markdown(dataset: DatasetOverview, rows: Sequence[_Row], *, has_paper: bool) -> str:
    columns = ["model", "runs", *_METRICS.values(), "parameters", "hours to peak"]
    columns += [f"paper: {name}" for name in _SHOWN] if has_paper else []
    lines = [f"### {dataset.title}", "", _line(columns), "|" + "---|" * len(columns)]
    for row in rows:
        cells = [
            f"{'**' if is_best else ''}{_spread(summary)}{'**' if is_best else ''}"
            for summary, is_best in row.cells.values()
        ]
        n_seeds = next(iter(row.cells.values()))[0].n_seeds
        paper = list(row.paper.values()) if has_paper else []
        lines.append(_line([row.model, str(n_seeds), *cells, row.n_parameters, row.hours, *paper]))
    lines += ["", _about(dataset, has_paper=has_paper), ""]
    return "\n".join(lines)


def _about(dataset: DatasetOverview, *, has_paper: bool) -> str:
    first = next(iter(dataset.gathered.runs.values()))[0].metrics
    told = [
        f"{first.n:,} examples, {first.n_short_forms} short forms. Mean over runs (worst to best); parameters without "
        "embeddings; hours of pre-training to the best score seen while training."
    ]
    if has_paper:
        told.append(
            "The paper's columns are accuracy / macro F1 on its own data, which are other notes: compare the order."
        )
    for model, (within, without) in dataset.gathered.ablation.items():
        told.append(
            f"Leakage ablation: {model} pre-trained on the test notes as well has macro F1 {_short(within.macro_f1)} "
            f"instead of {_short(without.macro_f1)}, accuracy {_short(within.accuracy)} instead of "
            f"{_short(without.accuracy)}."
        )
    if (selection := dataset.gathered.selection) is not None:
        compared = ", ".join(
            f"{setting.model} {_short(setting.macro_f1_there)}" for setting in selection.settings
        )
        chosen = next(setting.model for setting in selection.settings if setting.is_chosen)
        told.append(f"Settings compared on {selection.chosen_on} (macro F1): {compared}; chosen: {chosen}.")
    if dataset.gathered.missing:
        told.append(f"Not evaluated: {', '.join(dataset.gathered.missing)}.")
    return " ".join(told)


def _section(dataset: DatasetOverview, rows: Sequence[_Row], *, has_paper: bool) -> Markup:
    columns = ["Model", "Runs", "Accuracy", "Macro F1", "NLL"]  # all metrics are in results.md and the report
    columns += ["Parameters", "Hours to peak", *((f"Paper: {name}" for name in _SHOWN) if has_paper else ())]
    body: list[list[Cell]] = []
    for row in rows:
        cells: list[Cell] = [row.model, Number(str(next(iter(row.cells.values()))[0].n_seeds), None)]
        for s, is_best in (row.cells[metric] for metric in ("accuracy", "macro_f1", "nll")):
            below = f"{s.worst:.3f} to {s.best:.3f}" if s.n_seeds > 1 else None
            cells.append(Number(f"{s.mean:.3f}", s.mean, below, is_best))
        cells += [Number(text or "–", None) for text in (row.n_parameters, row.hours)]
        cells += [Number(text or "–", None) for text in row.paper.values()] if has_paper else []
        body.append(cells)
    return element(
        "section",
        element("h2", dataset.title),
        html_table(columns, body),
        element("p", _about(dataset, has_paper=has_paper), class_="soft"),
        element("p", element("a", "The whole report", href=f"{dataset.name}/report.html")),
    )


def _spread(summary: SeedSummary) -> str:
    mean = _short(summary.mean)
    return mean if summary.n_seeds == 1 else f"{mean} ({_short(summary.worst)} to {_short(summary.best)})"


def _short(value: float, decimals: int = 3) -> str:
    """A share without its leading zero, as the README writes them."""
    return f"{value:.{decimals}f}".removeprefix("0") if 0 <= value < 1 else f"{value:.{decimals}f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
