"""The steps that score: one run on one dataset. What is kept is enough for every table; no model is needed later."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.leakage import Leakage, check_leakage
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.predictions_file import save_predictions
from lmcells.evaluation.rankers import make_ranker
from lmcells.evaluation.reproduce.protocol import FOLDERS, DatasetPlan, Protocol
from lmcells.evaluation.reproduce.runs import Run
from lmcells.evaluation.reproduce.steps import Step, all_exist
from lmcells.evaluation.reproduce.training_record import read_training
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import load_inventory
from lmcells.files import write_json
from lmcells.notes.readers import ReadReport

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
    predictions = predict(run.name, named.ranker, examples, inventory)
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
