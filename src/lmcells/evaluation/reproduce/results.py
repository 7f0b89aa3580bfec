"""What an evaluation left on disk, read back."""

from dataclasses import dataclass
from typing import Any

from lmcells.errors import FormatError
from lmcells.evaluation.leakage import Leakage
from lmcells.evaluation.metrics import Metrics, measure
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.predictions_file import load_predictions
from lmcells.evaluation.reproduce.evaluate_step import RESULT
from lmcells.evaluation.reproduce.workspace import Workspace
from lmcells.files import read_json


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
