"""All that was evaluated on one dataset, put together for its report."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lmcells.evaluation.bootstrap import bootstrap_intervals
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.metrics import Metrics
from lmcells.evaluation.report import Selection, Setting
from lmcells.evaluation.reproduce.protocol import LeakagePlan, Protocol
from lmcells.evaluation.reproduce.results import RunResult, load_run
from lmcells.evaluation.reproduce.runs import Run, leaky_runs, runs_of
from lmcells.evaluation.reproduce.selection import candidates, read_selection
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.evaluation.results import ModelResult
from lmcells.notes.readers import ReadReport

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
