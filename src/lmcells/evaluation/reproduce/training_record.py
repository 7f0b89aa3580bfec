"""What a training run leaves behind that a report shows: hours to its peak, and scores while it trained."""

import json
from dataclasses import dataclass
from typing import Any

from lmcells.evaluation.reproduce.runs import Run
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json

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
