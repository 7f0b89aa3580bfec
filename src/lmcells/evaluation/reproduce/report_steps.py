"""The steps that report: a folder a dataset, then the overview of all of them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.evaluation.breakdown import SeedSummary, summarise_seeds
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import bootstrap_intervals
from lmcells.evaluation.metrics import LOWER_IS_BETTER, Metrics
from lmcells.evaluation.report import Published, Selection, Setting, Study, require_matplotlib, write_report
from lmcells.evaluation.report.latex import show_hours
from lmcells.evaluation.report.page import Cell, Markup, Number, document, element, html_table
from lmcells.evaluation.reproduce.protocol import DatasetPlan, LeakagePlan, ModelPlan, Protocol
from lmcells.evaluation.reproduce.run_steps import RunResult, candidates, load_run, read_selection
from lmcells.evaluation.reproduce.steps import Step, Steps, all_exist
from lmcells.evaluation.reproduce.workspace import Run, Workspace, leaky_runs, runs_of
from lmcells.files import atomic_write
from lmcells.notes.readers import ReadReport

# The figures of Adams et al. 2020, means over five pre-training runs, on the paper's own three test sets.
#
# Its main table, and for the last three systems what its text says about them; None is what it does not say.


DATASETS = ("MIMIC", "CUIMC", "CASI")
_Figures = tuple[
    float | None, float | None, float | None, float | None
]  # NLL, accuracy, weighted F1, macro F1
_SYSTEMS: dict[str, tuple[str, tuple[_Figures, _Figures, _Figures]]] = {
    "bert": ("BERT", ((1.36, 0.40, 0.40, 0.33), (1.41, 0.37, 0.33, 0.28), (1.23, 0.42, 0.38, 0.23))),
    "elmo": ("ELMo", ((1.33, 0.58, 0.61, 0.53), (1.38, 0.58, 0.60, 0.49), (1.21, 0.55, 0.56, 0.38))),
    "bsg": ("BSG", ((1.28, 0.57, 0.59, 0.52), (9.04, 0.58, 0.58, 0.46), (0.99, 0.64, 0.64, 0.41))),
    "mbsge": ("MBSGE", ((1.07, 0.65, 0.67, 0.59), (6.16, 0.64, 0.64, 0.52), (0.88, 0.70, 0.70, 0.46))),
    "lmc": ("LMC", ((0.81, 0.74, 0.78, 0.69), (0.90, 0.69, 0.68, 0.57), (0.79, 0.71, 0.73, 0.51))),
    "section-mle": (
        "Section Header MLE",
        ((None, 0.85, None, None), (None, 0.46, None, 0.33), (None, 0.48, None, 0.35)),
    ),
    "random": ("random", ((None, 0.27, None, None), (None, 0.26, None, None), (None, 0.31, None, None))),
    "dominant": ("dominant", ((None, 0.42, None, None), (None, 0.47, None, None), (None, 0.78, None, None))),
}


def published_figures(models: Iterable[ModelPlan]) -> tuple[Published, ...]:
    """The paper's figures for the kinds of our models."""
    return tuple(
        Published(model.name, _SYSTEMS[model.kind][0], dataset, *figures)
        for model in models
        if model.kind in _SYSTEMS
        for dataset, figures in zip(DATASETS, _SYSTEMS[model.kind][1], strict=True)
    )


# All that was evaluated on one dataset, put together for its report.


IsDone = Callable[[str], bool]  # of a step


@dataclass(frozen=True, eq=False)
class Gathered:
    """Each model with those of its runs that were evaluated, and what was missing."""

    runs: dict[str, list[RunResult]]
    missing: tuple[str, ...]  # runs
    ablation: dict[str, tuple[Metrics, Metrics]]
    selection: Selection | None


def gather(dataset: str, protocol: Protocol, workspace: Workspace, *, is_done: IsDone) -> Gathered:
    """Read what there is."""

    def runs(of: Iterable[Run]) -> list[RunResult]:
        done = [run for run in of if is_done(f"evaluate/{dataset}/{run.name}")]
        return [load_run(workspace, dataset, run.name) for run in done]

    selection, models = None, list(protocol.models)
    if protocol.selection is not None and is_done("select"):
        chosen, compared = read_selection(workspace)
        plans = {plan.name: plan for plan in candidates(protocol, protocol.selection)}
        is_elsewhere = dataset != protocol.selection.dataset
        here = {
            name: mean_metrics(runs(Run(plan, seed) for seed in protocol.selection.seeds))
            if is_elsewhere
            else None
            for name, plan in plans.items()
        }
        selection = Selection(
            chosen_on=protocol.selection.dataset,
            settings=tuple(
                Setting(each.model, each.model == chosen, each.n_seeds, each.macro_f1, here[each.model])
                for each in compared
            ),
        )
        models += [plans[chosen]] if is_elsewhere and plans[chosen] not in models else []
    found = {model.name: runs(runs_of(model)) for model in models}
    expected = [run.name for model in models for run in runs_of(model)]
    present = {run.name for of_model in found.values() for run in of_model}
    return Gathered(
        runs={name: of_model for name, of_model in found.items() if of_model},
        missing=tuple(name for name in expected if name not in present),
        ablation=_ablation(found, runs(leaky_runs(protocol)), protocol.leakage)
        if protocol.leakage is not None and protocol.leakage.dataset == dataset
        else {},
        selection=selection,
    )


def _ablation(
    found: dict[str, list[RunResult]], leaky: Sequence[RunResult], plan: LeakagePlan
) -> dict[str, tuple[Metrics, Metrics]]:
    """With and without the test notes, over the seeds that both have."""
    clean = {run.seed: run for run in found[plan.model]}
    pairs = [(run, clean[run.seed]) for run in leaky if run.seed in clean]
    within, without = mean_metrics([run for run, _ in pairs]), mean_metrics([run for _, run in pairs])
    return {} if within is None or without is None else {plan.model: (within, without)}


def model_results(gathered: Gathered, *, dataset: str, workspace: Workspace) -> list[ModelResult]:
    """Each model by its middle run in macro F1; cost is the mean over runs."""
    examples = {
        example.id: example for example in read_dataset(workspace.dataset(dataset), report=ReadReport())
    }
    return [_model_result(name, runs, examples) for name, runs in gathered.runs.items()]


def _model_result(name: str, runs: Sequence[RunResult], examples: dict[str, Example]) -> ModelResult:
    run = middle(runs)
    hours = [each.hours_to_peak for each in runs if each.hours_to_peak is not None]
    predictions = replace(run.predictions, model=name)
    has_notes = bool(predictions.cluster.max(initial=0))
    return ModelResult(
        model=name,
        predictions=predictions,
        metrics=run.metrics,
        intervals=bootstrap_intervals(predictions) if has_notes else {},
        n_parameters=run.n_parameters,
        hours_to_peak=float(np.mean(hours)) if hours else None,
        seconds=float(np.mean([each.seconds for each in runs])),
        contexts=examples,
        leakage=run.leakage,
        section_mapping=run.section_mapping,
    )


def middle(runs: Sequence[RunResult]) -> RunResult:
    """The run with the median macro F1; of an even number the lower of the two."""
    ordered = sorted(runs, key=lambda run: run.metrics.macro_f1)
    return ordered[(len(ordered) - 1) // 2]


def curve_of(runs: Sequence[RunResult], dataset: str) -> list[tuple[float, float]]:
    """Mean hours and accuracy over runs, at each time that all of them were scored."""
    curves = [
        [(float(point["hours"]), float(point["evaluation"][dataset]["accuracy"])) for point in run.curve]
        for run in runs
        if run.curve and all(dataset in point["evaluation"] for point in run.curve)
    ]
    points = zip(*curves, strict=False)  # one that ended earlier ends the curve
    return [tuple(np.mean(at_once, axis=0).tolist()) for at_once in points]


def mean_metrics(runs: Sequence[RunResult]) -> Metrics | None:
    """Metrics averaged over runs of the same examples."""
    if not runs:
        return None
    each = [run.metrics for run in runs]
    averaged: dict[str, Any] = {
        field.name: float(np.mean([getattr(metrics, field.name) for metrics in each]))
        for field in fields(Metrics)
        if isinstance(getattr(each[0], field.name), float)
    }
    at_k = {k: float(np.mean([metrics.accuracy_at_k[k] for metrics in each])) for k in each[0].accuracy_at_k}
    return replace(each[0], **averaged, accuracy_at_k=at_k)


# All datasets at a glance: `results.md`, whose tables go into a README, and `index.html` with links to the reports.


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


# The steps that report: a folder a dataset, then the overview of all of them.


def report_step(
    dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]
) -> Step:
    """Write the report of one dataset from whatever was evaluated on it."""
    folder = workspace.report / dataset.name

    def run(steps: Steps) -> None:
        require_matplotlib()
        gathered = gather(dataset.name, protocol, workspace, is_done=lambda name: steps.state(name).is_done)
        curves = {name: curve_of(runs, protocol.curve or "") for name, runs in gathered.runs.items()}
        write_report(
            folder,
            model_results(gathered, dataset=dataset.name, workspace=workspace),
            dataset_name=dataset.title or dataset.name,
            seeds={name: [each.metrics for each in runs] for name, runs in gathered.runs.items()},
            training_curves=curves if dataset.name == protocol.curve else {},
            ablation=gathered.ablation,
            study=Study(
                selection=gathered.selection,
                published=published_figures(protocol.models) if protocol.report.published else (),
                remarks=_remarks(gathered),
            ),
            n_rounds=protocol.report.rounds,
            n_resamples=protocol.report.resamples,
        )

    return Step(
        name=f"report/{dataset.name}",
        needs=(f"dataset/{dataset.name}",),
        wants=wants,
        settings={
            "title": dataset.title,
            "rounds": protocol.report.rounds,
            "resamples": protocol.report.resamples,
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
        },
        is_there=all_exist(folder / "report.html"),
        run=run,
    )


def _remarks(gathered: Gathered) -> tuple[str, ...]:
    """What one must know to read the page."""
    several = {name: middle(runs).seed for name, runs in gathered.runs.items() if len(runs) > 1}
    remarks = []
    if several:
        shown = ", ".join(f"{name} {seed}" for name, seed in several.items())
        remarks.append(
            "Of a model that was trained several times, “Pre-training runs” has all runs; everything else is about the "
            f"run with the median macro F1 (seeds: {shown})."
        )
    if gathered.missing:
        remarks.append(f"Not evaluated yet, and not on this page: {', '.join(gathered.missing)}.")
    return tuple(remarks)


def overview_step(protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]) -> Step:
    """Write results.md, for a README, and a page that leads to the reports."""
    datasets = [dataset for dataset in protocol.datasets if dataset.evaluated]

    def run(steps: Steps) -> None:
        def is_done(name: str) -> bool:
            return steps.state(name).is_done

        found = [
            DatasetOverview(
                each.name, each.title or each.name, gather(each.name, protocol, workspace, is_done=is_done)
            )
            for each in datasets
        ]
        published = published_figures(protocol.models) if protocol.report.published else ()
        write_overview(
            workspace.report,
            [each for each in found if each.gathered.runs],
            published=published,
            oracles=[model.name for model in protocol.models if model.kind == "dominant"],
        )

    return Step(
        name="report/overview",
        wants=wants,
        settings={
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
            "titles": {dataset.name: dataset.title for dataset in datasets},
        },
        is_there=all_exist(workspace.report / "results.md", workspace.report / "index.html"),
        run=run,
    )
