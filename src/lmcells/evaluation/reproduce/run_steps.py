"""The steps of one run: training it, scoring it on a dataset; and choosing among settings by their scores."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.errors import FormatError
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import Leakage, ModelResult, check_leakage, predict
from lmcells.evaluation.metrics import Metrics, measure
from lmcells.evaluation.predictions import load_predictions, save_predictions
from lmcells.evaluation.rankers import make_ranker
from lmcells.evaluation.reproduce.protocol import FOLDERS, DatasetPlan, Protocol, SelectionPlan
from lmcells.evaluation.reproduce.protocol_file import flags, resolved
from lmcells.evaluation.reproduce.steps import Step
from lmcells.evaluation.reproduce.workspace import Run, Workspace, remove
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import load_inventory
from lmcells.files import read_json, write_json
from lmcells.notes.readers import ReadReport

_RESULT = ".result.json"
_NEED_NO_CORPUS = ("random", "dominant")


def train_step(run: Run, protocol: Protocol, workspace: Workspace, *, device: str) -> Step:
    """Train one model with one seed: `lmcells train`, which goes on from its last checkpoint."""
    folder, curve = workspace.model(run.name), protocol.curve
    command = [
        *(sys.executable, "-m", "lmcells", "train", str(workspace.corpus(run.corpus))),
        *("--output", str(folder), "--resume", "--kind", run.model.kind, "--preset", run.model.preset),
        *("--seed", str(run.seed), "--device", device),
    ]
    for flag in flags(run.model):
        command += ["--set", flag]
    if curve is not None:
        command += ["--evaluate", str(workspace.dataset(curve.dataset))]
        command += ["--inventory", str(workspace.inventory(curve.dataset))]

    def prepare(key: str) -> None:
        """Keep what an interrupted run of the same key has left; remove what another one has."""
        workspace.open_corpus(run.corpus)
        begun = folder.with_name(f"{run.name}.begun.json")
        try:
            is_same = read_json(begun)["key"] == key
        except (OSError, ValueError, KeyError, TypeError):
            is_same = False
        if not is_same:
            remove(folder, folder.with_name(f"{run.name}.training"))
            begun.parent.mkdir(parents=True, exist_ok=True)
            write_json(begun, {"key": key})

    return Step(
        name=f"train/{run.name}",
        needs=(f"corpus/{run.corpus}", *((f"dataset/{curve.dataset}",) if curve is not None else ())),
        settings={"kind": run.model.kind, "seed": run.seed, **resolved(run.model)},
        outputs=(folder / "config.json",),
        prepare=prepare,
        command=command,
    )


def evaluate_step(run: Run, dataset: DatasetPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Score one run on one dataset; what is kept is enough for every table, so no model is needed later."""
    kind, reads_corpus = run.model.kind, run.model.kind not in _NEED_NO_CORPUS
    sources = {"folder": run.model.folder} if run.model.folder is not None else {}
    if dataset.kind != "casi" and dataset.section_map is not None:  # CASI's is applied to the dataset itself
        sources["section_map"] = dataset.section_map
    needs = [f"dataset/{dataset.name}"]
    needs += [f"train/{run.name}"] if run.is_trained else []
    needs += [f"corpus/{run.corpus}"] if reads_corpus else []
    return Step(
        name=f"evaluate/{dataset.name}/{run.name}",
        needs=tuple(needs),
        settings={
            "kind": kind,
            "seed": run.seed,
            "leakage_check": dataset.leakage_check,
            "curve": protocol.curve.dataset if protocol.curve is not None else None,
        },
        sources=sources,
        outputs=tuple(workspace.evaluation(dataset.name, run.name, s) for s in (_RESULT, ".json", ".npz")),
        prepare=lambda _: workspace.open_corpus(run.corpus) if reads_corpus else None,
        run=lambda _: _evaluate(run, dataset, workspace),
        runs_beside_others=True,
    )


def _evaluate(run: Run, dataset: DatasetPlan, workspace: Workspace) -> None:
    kind, folder = run.model.kind, run.model.folder
    examples = list(read_dataset(workspace.dataset(dataset.name), report=ReadReport()))
    inventory = load_inventory(workspace.inventory(dataset.name))
    corpus = None if kind in _NEED_NO_CORPUS else workspace.open_corpus(run.corpus)
    section_map = dataset.section_map if dataset.kind != "casi" else None
    name = f"{kind}:{folder.path()}" if folder is not None else kind
    named = make_ranker(
        str(workspace.model(run.name)) if run.is_trained else name,
        inventory,
        examples=examples,
        corpus=corpus,
        section_map=load_section_map(section_map.path()) if section_map is not None else {},
        words=frozenset(corpus.words) if corpus is not None and kind in FOLDERS else None,
        seed=run.seed or 0,
    )
    started = time.perf_counter()
    predictions = predict(run.name, named, examples, inventory)
    seconds = time.perf_counter() - started
    leakage = None
    if (
        dataset.leakage_check and corpus is not None and kind not in FOLDERS
    ):  # nobody knows what those have read
        note_ids = (example.note_id for example in examples)
        leakage = check_leakage(note_ids, corpus, waiver="leakage_check = false in its [[dataset]]")
    hours, curve = _training(workspace, run) if run.is_trained else (named.hours_to_peak, [])
    workspace.evaluation(dataset.name, run.name).parent.mkdir(parents=True, exist_ok=True)
    save_predictions(workspace.evaluation(dataset.name, run.name), predictions)
    result: dict[str, Any] = {
        "model": run.model.name,
        "seed": run.seed,
        "dataset": dataset.name,
        "metrics": measure(predictions).to_json(),
        "n_parameters": named.n_parameters,
        "hours_to_peak": hours,
        "seconds": seconds,
        "section_mapping": dict(named.sections.counts) if named.sections is not None else {},
        "leakage": None if leakage is None else leakage.to_json(),
        "curve": curve,
    }
    write_json(workspace.evaluation(dataset.name, run.name, _RESULT), result, indent=1)


def _training(workspace: Workspace, run: Run) -> tuple[float | None, list[dict[str, Any]]]:
    """Return hours of training to the peak, and {"hours", "step", "evaluation"} for each time it was scored."""
    training = read_json(workspace.model(run.name) / "config.json").get("training")
    hours = training.get("hours_to_peak") if isinstance(training, dict) else None
    path = workspace.model(f"{run.name}.training") / "metrics.jsonl"
    lines = (
        path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
    )  # the last may be cut off
    curve = [
        {key: value[key] for key in ("step", "hours", "evaluation")}
        for value in map(json.loads, lines)
        if "evaluation" in value
    ]
    return float(hours) if isinstance(hours, int | float) else None, curve


@dataclass(frozen=True, eq=False)
class RunResult:
    """One run on one dataset, as its evaluation left it on disk."""

    name: str
    seed: int | None
    result: ModelResult  # without intervals and texts
    curve: list[dict[str, Any]]

    @property
    def metrics(self) -> Metrics:
        """How good it was."""
        return self.result.metrics


def load_run(workspace: Workspace, dataset: str, run: str) -> RunResult:
    """Read predictions and what else is known; metrics are computed again from the predictions."""
    predictions = load_predictions(workspace.evaluation(dataset, run))
    path = workspace.evaluation(dataset, run, _RESULT)
    try:
        saved = read_json(path)
        result = ModelResult(
            model=saved["model"],
            predictions=predictions,
            metrics=measure(predictions),
            intervals={},
            n_parameters=saved["n_parameters"],
            hours_to_peak=saved["hours_to_peak"],
            seconds=float(saved["seconds"]),
            contexts={},
            leakage=None if saved["leakage"] is None else Leakage.from_json(saved["leakage"]),
            section_mapping=dict(saved["section_mapping"]),
        )
        return RunResult(run, saved["seed"], result, list(saved["curve"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged ({error}). Remove it to evaluate again.") from None


def select_step(plan: SelectionPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Choose a setting by macro F1, the mean over seeds; of equals the first.

    The choice is made on one dataset, so that the scores on the others are not flattered by it.
    """
    compared = {model.name: [Run(model, seed).name for seed in plan.seeds] for model in protocol.compared()}

    def run(_: Any) -> None:
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
        outputs=(workspace.selection,),
        run=run,
    )


def worker_command(config: Path, output: Path, step: str, *, data: Path | None = None) -> list[str]:
    """Return the command that does one step in a process of its own."""
    return [
        *(sys.executable, "-m", "lmcells", "reproduce", "--config", str(config), "--output", str(output)),
        *(("--data", str(data)) if data is not None else ()),
        *("--only", step, "--worker"),
    ]
