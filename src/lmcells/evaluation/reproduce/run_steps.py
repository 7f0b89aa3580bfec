"""Choosing a setting on one dataset, so that what is said of it on the others is not flattered by the choice."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.corpus import Corpus
from lmcells.errors import FormatError
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.evaluate import Leakage, check_leakage, predict
from lmcells.evaluation.metrics import Metrics, measure
from lmcells.evaluation.predictions import Predictions, load_predictions, save_predictions
from lmcells.evaluation.rankers import make_ranker
from lmcells.evaluation.reproduce.protocol import FOLDERS, DatasetPlan, ModelPlan, Protocol, SelectionPlan
from lmcells.evaluation.reproduce.protocol_file import flags, resolved
from lmcells.evaluation.reproduce.steps import Step, Steps, all_exist
from lmcells.evaluation.reproduce.workspace import Run, Workspace, remove
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import load_inventory
from lmcells.files import read_json, write_json
from lmcells.notes.readers import ReadReport

# What a training run leaves behind that a report shows: hours to its peak, and scores while it trained.


_METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """Hours of training to the peak, and one {"hours", "step", "evaluation"} for each time it was scored."""

    hours_to_peak: float | None
    curve: list[dict[str, Any]]


def read_training(workspace: Workspace, run: Run) -> TrainingRecord:
    """Read what is there; a model that does not say how long it took is no error."""
    training = read_json(workspace.model(run.name) / "config.json").get("training")
    hours = training.get("hours_to_peak") if isinstance(training, dict) else None
    return TrainingRecord(
        hours_to_peak=float(hours) if isinstance(hours, int | float) else None,
        curve=_curve(workspace, run),
    )


def _curve(workspace: Workspace, run: Run) -> list[dict[str, Any]]:
    path = workspace.training(run.name) / _METRICS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # a last one without its end was never finished
    values = (json.loads(line) for line in lines)
    return [
        {key: value[key] for key in ("step", "hours", "evaluation")}
        for value in values
        if "evaluation" in value
    ]


# The steps that train: each is `lmcells train` in a process of its own, and goes on from its last checkpoint.


def train_step(run: Run, protocol: Protocol, workspace: Workspace, *, device: str) -> Step:
    """Train one model with one seed."""
    curve = protocol.curve
    folder = workspace.model(run.name)

    def command(key: str) -> Sequence[str]:
        _begin(workspace, run, key)
        arguments = [
            *(sys.executable, "-m", "lmcells", "train", str(workspace.corpus(run.corpus))),
            *("--output", str(folder), "--resume", "--kind", run.model.kind, "--preset", run.model.preset),
            *("--seed", str(run.seed), "--device", device),
        ]
        for flag in flags(run.model):
            arguments += ["--set", flag]
        if curve is not None:
            arguments += ["--evaluate", str(workspace.dataset(curve))]
            arguments += ["--inventory", str(workspace.inventory(curve))]
        return arguments

    return Step(
        name=f"train/{run.name}",
        needs=(f"corpus/{run.corpus}", *((f"dataset/{curve}",) if curve is not None else ())),
        settings={"kind": run.model.kind, "seed": run.seed, **resolved(run.model)},
        corpora=(run.corpus,),
        is_there=all_exist(folder / "config.json"),
        command=command,
        in_own_process=True,
    )


def _begin(workspace: Workspace, run: Run, key: str) -> None:
    """Keep what an interrupted run of the same key has left; remove what another one has."""
    begun = workspace.model(run.name).with_name(f"{run.name}.begun.json")
    try:
        is_same = read_json(begun)["key"] == key
    except (OSError, ValueError, KeyError, TypeError):
        is_same = False
    if not is_same:
        remove(workspace.model(run.name), workspace.training(run.name))
        begun.parent.mkdir(parents=True, exist_ok=True)
        write_json(begun, {"key": key})


# The steps that score: one run on one dataset. What is kept is enough for every table; no model is needed later.


RESULT = ".result.json"
_READ_THE_CORPUS = ("section-mle", "lmc", "bsg", "mbsge", "elmo")


def evaluate_step(run: Run, dataset: DatasetPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Score one run on one dataset."""
    stem = workspace.evaluation(dataset.name, run.name)
    sources = {"folder": run.model.folder} if run.model.folder is not None else {}
    if dataset.kind != "casi" and dataset.section_map is not None:  # CASI's is applied to the dataset itself
        sources["section_map"] = dataset.section_map
    needs = [f"dataset/{dataset.name}"]
    needs += [f"train/{run.name}"] if run.is_trained else []
    needs += [f"corpus/{run.corpus}"] if run.model.kind not in ("random", "dominant") else []
    return Step(
        name=f"evaluate/{dataset.name}/{run.name}",
        needs=tuple(needs),
        settings={
            "kind": run.model.kind,
            "seed": run.seed,
            "leakage_check": dataset.leakage_check,
            "curve": protocol.curve,
        },
        sources=sources,
        corpora=tuple(need.removeprefix("corpus/") for need in needs if need.startswith("corpus/")),
        is_there=all_exist(*(stem.with_name(stem.name + suffix) for suffix in (RESULT, ".json", ".npz"))),
        run=lambda _: _evaluate(run, dataset, workspace),
        in_own_process=True,
    )


def _evaluate(run: Run, dataset: DatasetPlan, workspace: Workspace) -> None:
    stem = workspace.evaluation(dataset.name, run.name)
    stem.parent.mkdir(parents=True, exist_ok=True)
    examples = list(read_dataset(workspace.dataset(dataset.name), report=ReadReport()))
    inventory = load_inventory(workspace.inventory(dataset.name))
    kind = run.model.kind
    corpus = None if kind in ("random", "dominant") else workspace.open_corpus(run.corpus)
    is_mapped = dataset.kind != "casi" and dataset.section_map is not None
    named = make_ranker(
        _name_of(run, workspace),
        inventory,
        examples=examples,
        corpus=corpus,
        section_map=load_section_map(dataset.section_map.path()) if is_mapped and dataset.section_map else {},
        words=frozenset(corpus.words) if corpus is not None and kind in FOLDERS else None,
        seed=run.seed or 0,
    )
    started = time.perf_counter()
    predictions = predict(run.name, named, examples, inventory)
    seconds = time.perf_counter() - started
    leakage = _leakage(examples, corpus, kind=kind) if dataset.leakage_check else None
    training = read_training(workspace, run) if run.is_trained else None
    save_predictions(stem, predictions)
    result: dict[str, Any] = {
        "model": run.model.name,
        "seed": run.seed,
        "dataset": dataset.name,
        "metrics": measure(predictions).to_json(),
        "n_parameters": named.n_parameters,
        "hours_to_peak": named.hours_to_peak if training is None else training.hours_to_peak,
        "seconds": seconds,
        "section_mapping": dict(named.sections.counts) if named.sections is not None else {},
        "leakage": None if leakage is None else leakage.to_json(),
        "curve": [] if training is None else training.curve,
    }
    write_json(stem.with_name(stem.name + RESULT), result, indent=1)


def _name_of(run: Run, workspace: Workspace) -> str:
    """The run as `lmcells evaluate` would call it."""
    if run.is_trained:
        return str(workspace.model(run.name))
    return f"{run.model.kind}:{run.model.folder.path()}" if run.model.folder is not None else run.model.kind


def _leakage(examples: Sequence[Example], corpus: Corpus | None, *, kind: str) -> Leakage | None:
    """Nothing is known of what others have trained on."""
    if corpus is None or kind not in _READ_THE_CORPUS:
        return None
    note_ids = (example.note_id for example in examples)
    return check_leakage(note_ids, corpus, waiver="leakage_check = false in its [[dataset]]")


def worker_command(config: Path, output: Path, step: str) -> list[str]:
    """The same step as a process of its own."""
    return [
        *(sys.executable, "-m", "lmcells", "reproduce", "--config", str(config), "--output", str(output)),
        *("--only", step, "--worker"),
    ]


# What an evaluation left on disk, read back.


@dataclass(frozen=True, eq=False)
class RunResult:
    """One run on one dataset."""

    name: str
    seed: int | None
    predictions: Predictions
    metrics: Metrics
    n_parameters: int | None
    hours_to_peak: float | None
    seconds: float
    section_mapping: dict[str, int]
    leakage: Leakage | None
    curve: list[dict[str, Any]]


def load_run(workspace: Workspace, dataset: str, run: str) -> RunResult:
    """Read predictions and what else is known; metrics are computed again from the predictions."""
    stem = workspace.evaluation(dataset, run)
    path = stem.with_name(stem.name + RESULT)
    predictions = load_predictions(stem)
    try:
        saved = read_json(path)
        return RunResult(
            name=run,
            seed=saved["seed"],
            predictions=predictions,
            metrics=measure(predictions),
            n_parameters=saved["n_parameters"],
            hours_to_peak=saved["hours_to_peak"],
            seconds=float(saved["seconds"]),
            section_mapping=dict(saved["section_mapping"]),
            leakage=None if saved["leakage"] is None else Leakage.from_json(saved["leakage"]),
            curve=list(saved["curve"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged ({error}). Remove it to evaluate again.") from None


# Choosing a setting on one dataset, so that what is said of it on the others is not flattered by the choice.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting, and its mean over seeds on the dataset that it is chosen on."""

    model: str
    macro_f1: float
    n_seeds: int


def candidates(protocol: Protocol, plan: SelectionPlan) -> list[ModelPlan]:
    """The model as it is, and with each of the settings."""
    return [protocol.model(plan.model), *plan.settings]


def select_step(protocol: Protocol, workspace: Workspace) -> Step:
    """Choose by macro F1, the mean over seeds; of equals the first."""
    plan = protocol.selection
    assert plan is not None
    compared = {
        model.name: [Run(model, seed).name for seed in plan.seeds] for model in candidates(protocol, plan)
    }

    def run(_: Steps) -> None:
        scores = {
            name: [load_run(workspace, plan.dataset, each).metrics.macro_f1 for each in runs]
            for name, runs in compared.items()
        }
        chosen = max(scores, key=lambda name: float(np.mean(scores[name])))
        write_json(
            workspace.selection, {"dataset": plan.dataset, "chosen": chosen, "macro_f1": scores}, indent=1
        )

    return Step(
        name="select",
        needs=tuple(f"evaluate/{plan.dataset}/{run}" for runs in compared.values() for run in runs),
        settings={"dataset": plan.dataset, "compared": compared},
        is_there=all_exist(workspace.selection),
        run=run,
    )


def read_selection(workspace: Workspace) -> tuple[str, list[Candidate]]:
    """The chosen model, and all that were compared."""
    found: dict[str, Any] = read_json(workspace.selection)
    compared = [
        Candidate(name, float(np.mean(scores)), len(scores)) for name, scores in found["macro_f1"].items()
    ]
    return found["chosen"], compared
