"""All that was evaluated on one dataset, put together for its report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import bootstrap_intervals
from lmcells.evaluation.metrics import Metrics
from lmcells.evaluation.report import Published, Selection, Setting
from lmcells.evaluation.reproduce.protocol import ModelPlan, Protocol
from lmcells.evaluation.reproduce.run_steps import RunResult, load_run
from lmcells.evaluation.reproduce.steps import IsDone
from lmcells.evaluation.reproduce.workspace import Run, Workspace, leaky_runs, runs_of
from lmcells.files import read_json
from lmcells.notes.readers import ReadReport

# Adams et al. 2020, means over five pre-training runs on the paper's own three test sets: NLL, accuracy, weighted F1,
# macro F1. The main table, and for the last three systems what the text says about them; None where it says nothing.
_TEST_SETS = ("MIMIC", "CUIMC", "CASI")
_SYSTEMS: dict[str, tuple[str, tuple[tuple[float | None, ...], ...]]] = {
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
    """Return the paper's figures for the kinds of our models."""
    return tuple(
        Published(model.name, _SYSTEMS[model.kind][0], test_set, *figures)
        for model in models
        if model.kind in _SYSTEMS
        for test_set, figures in zip(_TEST_SETS, _SYSTEMS[model.kind][1], strict=True)
    )


@dataclass(frozen=True, eq=False)
class Gathered:
    """Each model with those of its runs that were evaluated, and what was missing."""

    runs: dict[str, list[RunResult]]
    missing: tuple[str, ...]  # runs
    ablation: dict[str, tuple[Metrics, Metrics]]
    selection: Selection | None


def gather(dataset: str, protocol: Protocol, workspace: Workspace, *, is_done: IsDone) -> Gathered:
    """Read the results that there are."""

    def results(runs: Iterable[Run]) -> list[RunResult]:
        done = [run for run in runs if is_done(f"evaluate/{dataset}/{run.name}")]
        return [load_run(workspace, dataset, run.name) for run in done]

    selection, models = None, list(protocol.models)
    if (plan := protocol.selection) is not None and is_done("select"):
        found = read_json(workspace.selection)
        compared = {model.name: model for model in protocol.compared()}
        is_elsewhere = dataset != plan.dataset
        settings = []
        for name, scores in found["macro_f1"].items():
            here = (
                mean_metrics(results(Run(compared[name], seed) for seed in plan.seeds))
                if is_elsewhere
                else None
            )
            settings.append(Setting(name, name == found["chosen"], len(scores), float(np.mean(scores)), here))
        selection = Selection(chosen_on=plan.dataset, settings=tuple(settings))
        chosen = compared[found["chosen"]]
        models += [chosen] if is_elsewhere and chosen not in models else []
    runs = {model.name: results(runs_of(model)) for model in models}
    present = {run.name for of_model in runs.values() for run in of_model}
    ablation = {}
    if (leakage := protocol.leakage) is not None and leakage.dataset == dataset:
        clean = {run.seed: run for run in runs[leakage.model]}
        pairs = [(run, clean[run.seed]) for run in results(leaky_runs(protocol)) if run.seed in clean]
        within, without = mean_metrics([run for run, _ in pairs]), mean_metrics([run for _, run in pairs])
        if within is not None and without is not None:
            ablation[leakage.model] = (within, without)
    return Gathered(
        runs={name: of_model for name, of_model in runs.items() if of_model},
        missing=tuple(run.name for model in models for run in runs_of(model) if run.name not in present),
        ablation=ablation,
        selection=selection,
    )


def model_results(gathered: Gathered, *, dataset: str, workspace: Workspace) -> list[ModelResult]:
    """Return each model by its middle run in macro F1; cost is the mean over runs."""
    report = ReadReport()
    examples = {each.id: each for each in read_dataset(workspace.dataset(dataset), report=report)}
    found = []
    for name, runs in gathered.runs.items():
        result = middle(runs).result
        predictions = replace(result.predictions, model=name)
        result = replace(
            result,
            predictions=predictions,
            intervals=bootstrap_intervals(predictions) if predictions.cluster.max(initial=0) else {},
            hours_to_peak=mean_hours(runs),
            seconds=float(np.mean([run.result.seconds for run in runs])),
            contexts=examples,
        )
        found.append(result)
    return found


def middle(runs: Sequence[RunResult]) -> RunResult:
    """Return the run with the median macro F1; of an even number the lower of the two."""
    ordered = sorted(runs, key=lambda run: run.metrics.macro_f1)
    return ordered[(len(ordered) - 1) // 2]


def mean_hours(runs: Sequence[RunResult]) -> float | None:
    """Return the mean hours to peak of the runs that know theirs."""
    hours = [hours for run in runs if (hours := run.result.hours_to_peak) is not None]
    return float(np.mean(hours)) if hours else None


def curve_of(runs: Sequence[RunResult], dataset: str) -> list[tuple[float, float]]:
    """Return mean hours and accuracy over runs, at each time that all of them were scored."""
    curves = [
        [(float(point["hours"]), float(point["evaluation"][dataset]["accuracy"])) for point in run.curve]
        for run in runs
        if run.curve and all(dataset in point["evaluation"] for point in run.curve)
    ]
    points = zip(*curves, strict=False)  # the shortest curve ends it
    return [tuple(np.mean(at_once, axis=0).tolist()) for at_once in points]


def mean_metrics(runs: Sequence[RunResult]) -> Metrics | None:
    """Return metrics averaged over runs on the same examples."""
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
