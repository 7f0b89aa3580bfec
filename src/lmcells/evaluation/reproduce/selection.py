"""Choosing a setting on one dataset, so that what is said of it on the others is not flattered by the choice."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lmcells.evaluation.reproduce.protocol import ModelPlan, Protocol, SelectionPlan
from lmcells.evaluation.reproduce.results import load_run
from lmcells.evaluation.reproduce.runs import Run
from lmcells.evaluation.reproduce.steps import Step, Steps, all_exist
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json, write_json


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
