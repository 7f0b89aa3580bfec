"""The steps that train: each is `lmcells train` in a process of its own, and goes on from its last checkpoint."""

import sys
from collections.abc import Sequence

from lmcells.evaluation.reproduce.protocol import Protocol
from lmcells.evaluation.reproduce.runs import Run
from lmcells.evaluation.reproduce.steps import Step, all_exist
from lmcells.evaluation.reproduce.training_settings import flags, resolved
from lmcells.evaluation.reproduce.workspace import Workspace, remove
from lmcells.files import read_json, write_json


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
