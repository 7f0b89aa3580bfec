"""The steps that report: a folder for each dataset, then `results.md` and `index.html`, all datasets at a glance."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmcells.evaluation.breakdown import summarise_seeds
from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.report import Published, Study, require_matplotlib, write_report
from lmcells.evaluation.report.findings import show_hours
from lmcells.evaluation.report.page import accuracy_and_f1, render
from lmcells.evaluation.reproduce.gathering import (
    Gathered,
    curve_of,
    gather,
    mean_hours,
    middle,
    model_results,
    published_figures,
)
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.steps import IsDone, Step
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import atomic_write

_METRICS = {"accuracy": "accuracy", "weighted_f1": "weighted F1", "macro_f1": "macro F1", "nll": "NLL"}
_TEST_SETS = ("MIMIC", "CASI")  # of the paper's three; CUIMC is private


def report_step(
    dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]
) -> Step:
    """Write the report of one dataset from whatever was evaluated on it."""
    folder, report = workspace.report / dataset.name, protocol.report

    def run(is_done: IsDone) -> None:
        require_matplotlib()
        gathered = gather(dataset.name, protocol, workspace, is_done=is_done)
        is_curve = protocol.curve is not None and protocol.curve.dataset == dataset.name
        write_report(
            folder,
            model_results(gathered, dataset=dataset.name, workspace=workspace),
            dataset_name=dataset.title or dataset.name,
            seeds={name: [each.metrics for each in runs] for name, runs in gathered.runs.items()},
            training_curves={name: curve_of(runs, dataset.name) for name, runs in gathered.runs.items()}
            if is_curve
            else {},
            ablation=gathered.ablation,
            study=Study(
                selection=gathered.selection,
                published=published_figures(protocol.models) if report.published else (),
                remarks=_remarks(gathered),
            ),
            n_rounds=report.rounds,
            n_resamples=report.resamples,
        )

    return Step(
        name=f"report/{dataset.name}",
        needs=(f"dataset/{dataset.name}",),
        wants=wants,
        settings={
            "title": dataset.title,
            "rounds": report.rounds,
            "resamples": report.resamples,
            "published": report.published,
            "models": [model.name for model in protocol.models],
        },
        outputs=(folder / "report.html",),
        run=run,
    )


def _remarks(gathered: Gathered) -> tuple[str, ...]:
    """What one must know to read the page."""
    remarks = []
    if several := {name: middle(runs).seed for name, runs in gathered.runs.items() if len(runs) > 1}:
        shown = ", ".join(f"{name} {seed}" for name, seed in several.items())
        remarks.append(
            "Of a model that was trained several times, “Pre-training runs” has all runs; everything else is about the "
            f"run with the median macro F1 (seeds: {shown})."
        )
    if gathered.missing:
        remarks.append(f"Not evaluated yet, and not on this page: {', '.join(gathered.missing)}.")
    return tuple(remarks)


def overview_step(protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]) -> Step:
    """Write results.md, for a README, and index.html, which leads to the reports."""
    datasets, folder = protocol.evaluated(), workspace.report

    def run(is_done: IsDone) -> None:
        require_matplotlib()
        published = published_figures(protocol.models) if protocol.report.published else ()
        paper = [f"Paper: {name}" for name in _TEST_SETS] if published else []
        oracles = {model.name for model in protocol.models if model.kind == "dominant"}
        shown = []
        for dataset in datasets:
            gathered = gather(dataset.name, protocol, workspace, is_done=is_done)
            if gathered.runs:
                about = _about(gathered, has_paper=bool(published))
                each = {"name": dataset.name, "title": dataset.title or dataset.name, "about": about}
                shown.append({**each, "rows": _rows(gathered, published, oracles)})
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "results.md": "\n".join(_markdown(each, paper) for each in shown),
            "index.html": render("index.html", datasets=shown, paper=paper),
        }
        for name, text in texts.items():
            with atomic_write(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")

    return Step(
        name="report/overview",
        wants=wants,
        settings={
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
            "titles": {dataset.name: dataset.title for dataset in datasets},
        },
        outputs=(folder / "results.md", folder / "index.html"),
        run=run,
    )


def _rows(gathered: Gathered, published: Sequence[Published], oracles: set[str]) -> list[dict[str, Any]]:
    """A row for each model; those that have seen the answers, the oracles, are never the best."""
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
        found, is_oracle = summaries[name], name in oracles
        theirs = {each.dataset: each for each in published if each.model == name}
        row = {
            "model": f"{name} (oracle)" if is_oracle else name,
            "n_runs": len(runs),
            "summaries": found,
            "best": {m for m in _METRICS if not is_oracle and found[m].mean == best[m]},
            "n_parameters": runs[0].result.n_parameters,
            "hours": mean_hours(runs),
            "paper": [
                accuracy_and_f1(theirs.get(test_set), partial(_short, decimals=2))
                for test_set in (_TEST_SETS if published else ())
            ],
        }
        rows.append(row)
    return rows


def _markdown(dataset: Mapping[str, Any], paper: Sequence[str]) -> str:
    columns = [
        "model",
        "runs",
        *_METRICS.values(),
        "parameters",
        "hours to peak",
        *(f"p{name[1:]}" for name in paper),
    ]
    lines = [columns]
    for row in dataset["rows"]:
        cells = [row["model"], str(row["n_runs"])]
        for metric in _METRICS:
            s, bold = row["summaries"][metric], "**" if metric in row["best"] else ""
            spread = f" ({_short(s.worst)} to {_short(s.best)})" if s.n_seeds > 1 else ""
            cells.append(f"{bold}{_short(s.mean)}{spread}{bold}")
        cells.append("" if row["n_parameters"] is None else f"{row['n_parameters']:,}")
        cells.append("" if row["hours"] is None else show_hours(row["hours"]))
        lines.append([*cells, *(each["shown"] for each in row["paper"])])
    table = ["| " + " | ".join(cells) + " |" for cells in lines]
    table.insert(1, "|" + "---|" * len(columns))
    return "\n".join([f"### {dataset['title']}", "", *table, "", dataset["about"], ""])


def _about(gathered: Gathered, *, has_paper: bool) -> str:
    first = next(iter(gathered.runs.values()))[0].metrics
    told = [
        f"{first.n:,} examples, {first.n_short_forms} short forms. Mean over runs (worst to best); parameters without "
        "embeddings; hours of pre-training to the best score seen while training."
    ]
    if has_paper:
        told.append(
            "The paper's columns are accuracy / macro F1 on its own data, which are other notes: compare the order."
        )
    for model, (within, without) in gathered.ablation.items():
        told.append(
            f"Leakage ablation: {model} pre-trained on the test notes as well has macro F1 {_short(within.macro_f1)} "
            f"instead of {_short(without.macro_f1)}, accuracy {_short(within.accuracy)} instead of "
            f"{_short(without.accuracy)}."
        )
    if (selection := gathered.selection) is not None:
        compared = ", ".join(f"{each.model} {_short(each.macro_f1_there)}" for each in selection.settings)
        chosen = next(each.model for each in selection.settings if each.is_chosen)
        told.append(f"Settings compared on {selection.chosen_on} (macro F1): {compared}; chosen: {chosen}.")
    if gathered.missing:
        told.append(f"Not evaluated: {', '.join(gathered.missing)}.")
    return " ".join(told)


def _short(value: float, decimals: int = 3) -> str:
    """A share without its leading zero, as the README writes them."""
    return f"{value:.{decimals}f}".removeprefix("0") if 0 <= value < 1 else f"{value:.{decimals}f}"
