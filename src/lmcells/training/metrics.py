"""What a run reports: losses and speed, to metrics.jsonl and TensorBoard, and its best evaluation."""

import json
import math
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lmcells.errors import LmcellsError
from lmcells.files import atomic_write

if TYPE_CHECKING:
    import torch

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class TrainingStopped(LmcellsError):  # noqa: N818 - an event, not an error
    """A signal asked the run to stop; its state is in a checkpoint."""


class TrainingDiverged(LmcellsError):  # noqa: N818 - says what happened
    """A loss, a gradient or a score is no longer a finite number; the last checkpoint is intact."""


class TrainingFailed(LmcellsError):  # noqa: N818 - says what happened
    """The disk is full, or the device has too little memory; the last checkpoint is intact."""


class TrainingWarning(UserWarning):
    """Training continues, but not as the user may expect."""


class Progress(NamedTuple):
    """A report: how far the run has got, and means since the last report; `str` gives one line of it."""

    metrics: dict[str, Any]  # the line of metrics.jsonl
    losses: dict[str, float]  # those of the metrics, by name
    text: str
    seconds_left: float | None = None

    def __str__(self) -> str:
        return self.text


def require_finite(values: Mapping[str, float | None], *, step: int) -> None:
    """Raise FloatingPointError if a loss or gradient norm, given by name, is not finite."""
    found = {name.replace("_", " "): value for name, value in values.items() if value is not None}
    if not all(map(math.isfinite, found.values())):
        named = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
        raise FloatingPointError(f"the loss is no longer finite after step {step:,} ({named})")


def peak_memory(device: "torch.device") -> int:
    """Peak memory in bytes: of tensors on a GPU, otherwise the resident memory of the process."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class MetricsLog:
    """Appends one JSON object per report, and its numbers to TensorBoard where that is installed.

    Reports after `from_step`, from before a run was resumed, are dropped first.
    """

    def __init__(self, folder: Path, *, from_step: int) -> None:
        path = folder / METRICS
        kept = [line for line in _lines(path) if json.loads(line)["step"] <= from_step] if from_step else []
        with atomic_write(path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._board = None
        else:
            self._board = SummaryWriter(folder / TENSORBOARD, purge_step=from_step + 1)

    def write(self, values: Mapping[str, Any]) -> None:
        """Append one object, which must have a `step`."""
        self._file.write(json.dumps(values, ensure_ascii=False) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _numbers(values):
                self._board.add_scalar(name, value, values["step"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of a run's metrics.jsonl, in order; none if there is no such file."""
    yield from map(json.loads, _lines(folder / METRICS))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested mappings, named by their path; without the step, which is the axis."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            yield prefix + name, value


def _lines(path: Path) -> list[str]:
    """The complete lines of a file; a killed process may have left half a line at the end."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []


def find_peak(output: Path) -> dict[str, Any] | None:
    """The first of a run's best evaluations by macro F1, over all resumptions: metric, score, step and hours.

    The score is the mean over datasets; hours are of training, without evaluations. A run without scores has the lowest
    held-out loss instead, or None.
    """
    peaks, lowest = [], []
    for line in read_metrics(output):
        datasets = [scores for scores in line.get("evaluation", {}).values() if isinstance(scores, dict)]
        found = [scores["macro_f1"] for scores in datasets if "macro_f1" in scores]
        if found:
            score, hours = sum(found) / len(found), line["hours"]
            peaks.append({"metric": "macro_f1", "score": score, "step": line["step"], "hours": hours})
        if "held_out_loss" in line:
            score, hours = line["held_out_loss"], line["seconds"] / 3600
            lowest.append({"metric": "held_out_loss", "score": score, "step": line["step"], "hours": hours})
    if peaks:
        return max(peaks, key=lambda peak: peak["score"])
    return min(lowest, key=lambda peak: peak["score"], default=None)
