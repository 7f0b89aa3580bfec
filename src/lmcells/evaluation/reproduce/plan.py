"""A protocol -> its steps, in a valid order; and the steps of its runs: training, scoring."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.evaluation.evaluate import BEST, evaluate
from lmcells.evaluation.predictions import save_predictions
from lmcells.evaluation.reproduce.data_steps import corpus_step, dataset_step
from lmcells.evaluation.reproduce.protocol import FOLDERS, DatasetPlan, Protocol, SelectionPlan
from lmcells.evaluation.reproduce.protocol_file import flags, resolved
from lmcells.evaluation.reproduce.report_steps import RESULT, load_result, overview_step, report_step
from lmcells.evaluation.reproduce.steps import (
    INVENTORY,
    LEAKY,
    MAIN,
    Run,
    Step,
    Steps,
    Workspace,
    leaky_runs,
    runs_of,
)
from lmcells.files import read_json, write_json

_NEED_NO_CORPUS = ("random", "dominant")

Worker = Callable[[str], Sequence[str]]  # the name of a step -> a command that does that step alone


def plan_steps(
    protocol: Protocol, workspace: Workspace, *, device: str = "auto", worker: Worker = lambda _: ()
) -> Steps:
    """Lay out the whole protocol; nothing is run."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    corpora = (MAIN, LEAKY) if protocol.leakage is not None else (MAIN,)
    steps = [dataset_step(dataset, protocol, workspace) for dataset in _in_order(protocol)]
    steps += [corpus_step(which, protocol, workspace, workers=n_cores) for which in corpora]
    scored: dict[str, list[str]] = {dataset.name: [] for dataset in protocol.evaluated()}
    models = (*protocol.models, *protocol.compared()[1:])
    runs = [*(run for model in models for run in runs_of(model)), *leaky_runs(protocol)]
    # The first seed of every model before the second of any, so that an early stop leaves a full table.
    for run in sorted(runs, key=lambda run: run.model.seeds.index(run.seed) if run.seed is not None else 0):
        if run.is_trained:
            steps.append(train_step(run, protocol, workspace, device=device))
        for name in [protocol.leakage.dataset] if run.corpus == LEAKY and protocol.leakage else scored:
            steps.append(evaluate_step(run, protocol.dataset(name), protocol, workspace, worker))
            scored[name].append(steps[-1].name)
    selected = (
        [select_step(protocol.selection, protocol, workspace)] if protocol.selection is not None else []
    )
    select = [step.name for step in selected]
    reports = [
        report_step(protocol.dataset(name), protocol, workspace, wants=(*wants, *select))
        for name, wants in scored.items()
    ]
    every = (*chain.from_iterable(scored.values()), *select)
    return Steps([*steps, *selected, *reports, overview_step(protocol, workspace, wants=every)], workspace)


def _in_order(protocol: Protocol) -> list[DatasetPlan]:
    """Datasets after those whose senses or short forms they use."""
    uses = {
        each.name: {name for name in (protocol.dataset_of_inventory(each), each.match_short_forms) if name}
        for each in protocol.datasets
    }
    try:
        return [protocol.dataset(name) for name in TopologicalSorter(uses).static_order()]
    except CycleError as error:
        raise ConfigError(f"datasets use each other: {' -> '.join(error.args[1])}.") from None


def train_step(run: Run, protocol: Protocol, workspace: Workspace, *, device: str) -> Step:
    """Train one model with one seed: `lmcells train`, which continues from its last checkpoint."""
    folder, curve, scored = workspace.model(run.name), protocol.curve, protocol.scored()
    command = [
        *(sys.executable, "-m", "lmcells", "train", str(workspace.corpus(run.corpus))),
        *("--output", str(folder), "--resume", "--kind", run.model.kind, "--preset", run.model.preset),
        *("--seed", str(run.seed), "--device", device),
        *(part for flag in flags(run.model) for part in ("--set", flag)),
    ]
    for dataset in scored:
        command += ["--evaluate", str(workspace.dataset(dataset.name))]
        command += ["--inventory", str(workspace.dataset(dataset.name, INVENTORY))]
    if curve is not None:
        command += ["--set", f"training.evaluations={curve.points}"]
        command += ["--keep-best"] if protocol.chooses else []
    chosen = [_chosen(run, dataset, workspace) for dataset in scored] if protocol.chooses else []
    return Step(
        name=f"train/{run.name}",
        needs=(f"corpus/{run.corpus}", *(f"dataset/{dataset.name}" for dataset in scored)),
        settings={
            "kind": run.model.kind,
            "seed": run.seed,
            **resolved(run.model),
            **({"points": curve.points} if curve and curve.points > 1 else {}),
            **({"chooses": True} if chosen else {}),
        },
        outputs=(folder / "config.json", *chosen),
        resumes=(folder, workspace.model(f"{run.name}.training")),
        command=command,
    )


def _chosen(run: Run, dataset: DatasetPlan, workspace: Workspace) -> Path:
    """Return the folder of the weights of a run that were best on the other datasets."""
    return workspace.model(f"{run.name}.training") / BEST / dataset.name


def evaluate_step(
    run: Run, dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, worker: Worker
) -> Step:
    """Score one run on one dataset, and keep everything for the tables, so that no model is needed later."""
    name, kind, folder = f"evaluate/{dataset.name}/{run.name}", run.model.kind, run.model.folder
    reads_corpus = kind not in _NEED_NO_CORPUS
    needs = [f"dataset/{dataset.name}"]
    needs += [f"train/{run.name}"] if run.is_trained else []
    needs += [f"corpus/{run.corpus}"] if reads_corpus else []

    def score(_: Any) -> None:
        baseline = f"{kind}:{folder.path()}" if folder is not None else kind
        model = _chosen(run, dataset, workspace) if protocol.chooses else workspace.model(run.name)
        curve = _training_curve(workspace, run) if run.is_trained else []
        scores = [_score_on(dataset.name, point["evaluation"]) for point in curve]
        (result,) = evaluate(
            str(model) if run.is_trained else baseline,
            dataset=workspace.dataset(dataset.name),
            inventory=workspace.dataset(dataset.name, INVENTORY),
            corpus=Corpus.open(workspace.corpus(run.corpus)) if reads_corpus else None,
            seed=run.seed or 0,
            leakage_check=dataset.leakage_check and kind not in FOLDERS,  # their training text is unknown
        )
        saved = {
            "model": run.model.name,
            "seed": run.seed,
            "dataset": dataset.name,
            "metrics": asdict(result.metrics),
            "n_parameters": result.n_parameters,
            "hours_to_peak": curve[int(np.argmax(scores))]["hours"] if curve else result.hours_to_peak,
            "seconds": result.seconds,
            "section_mapping": dict(result.section_mapping),
            "leakage": result.leakage,
            "curve": curve,
        }
        workspace.evaluation(dataset.name, run.name).parent.mkdir(parents=True, exist_ok=True)
        predictions = replace(result.predictions, model=run.name)
        save_predictions(workspace.evaluation(dataset.name, run.name), predictions)
        write_json(workspace.evaluation(dataset.name, run.name, RESULT), saved, indent=1)

    return Step(
        name=name,
        needs=tuple(needs),
        settings={
            "kind": kind,
            "seed": run.seed,
            "leakage_check": dataset.leakage_check,
            "curve": [each.name for each in protocol.scored()] or None,
            "chooses": protocol.chooses,
        },
        sources={"folder": folder} if folder is not None else {},
        outputs=tuple(workspace.evaluation(dataset.name, run.name, s) for s in (RESULT, ".json", ".npz")),
        run=score,
        command=worker(name),
    )


def _score_on(dataset: str, evaluation: dict[str, dict[str, float]]) -> float:
    """Return the macro F1 on a dataset, or the mean of the others if it is not scored while training."""
    scores = {name: each["macro_f1"] for name, each in evaluation.items()}
    return scores[dataset] if dataset in scores else float(np.mean(list(scores.values())))


def _training_curve(workspace: Workspace, run: Run) -> list[dict[str, Any]]:
    """Return {"step", "hours", "evaluation"} for each time that a run was scored while it trained."""
    path = workspace.model(f"{run.name}.training") / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    values = map(json.loads, text.split("\n")[:-1])  # the last line may be cut off
    keys = ("step", "hours", "evaluation")
    return [{key: value[key] for key in keys} for value in values if "evaluation" in value]


def select_step(plan: SelectionPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Choose a setting by macro F1, the mean over seeds and datasets; on a tie the first.

    The choice for a dataset is made on the others, so that its scores are unbiased; where weights are chosen too, by
    those that were best on the others.
    """
    compared = {model.name: [Run(model, seed).name for seed in plan.seeds] for model in protocol.compared()}
    names = [dataset.name for dataset in protocol.evaluated()]
    looked_at = [plan.dataset] if plan.dataset else names

    def macro_f1(run: str, datasets: list[str]) -> float:
        if not protocol.chooses:
            results = [load_result(workspace, each, run) for each in datasets]
            return float(np.mean([each["metrics"].macro_f1 for each in results]))
        curve = read_json(workspace.evaluation(datasets[0], run, RESULT))["curve"]
        scores = ([point["evaluation"][each]["macro_f1"] for each in datasets] for point in curve)
        return max(float(np.mean(of_point)) for of_point in scores)

    def run(_: Any) -> None:
        found: dict[str, Any] = {}
        for dataset in names:
            others = [plan.dataset] if plan.dataset else [name for name in names if name != dataset]
            scores = {name: [macro_f1(each, others) for each in runs] for name, runs in compared.items()}
            chosen = max(scores, key=lambda name: float(np.mean(scores[name])))
            found[dataset] = {"chosen_on": others, "chosen": chosen, "macro_f1": scores}
        write_json(workspace.selection, found, indent=1)

    return Step(
        name="select",
        needs=tuple(
            f"evaluate/{name}/{run}" for name in looked_at for each in compared.values() for run in each
        ),
        settings={"dataset": plan.dataset, "compared": compared, "chooses": protocol.chooses},
        outputs=(workspace.selection,),
        run=run,
    )
