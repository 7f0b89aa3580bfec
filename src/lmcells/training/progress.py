"""What a run says about itself while it goes on."""

import json
import math
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch

from lmcells.errors import LmcellsError
from lmcells.files import atomic_write

# How a training run can end before its time.


class TrainingStopped(LmcellsError):  # noqa: N818 - it tells what happened; nothing is wrong
    """A signal asked the run to stop; its state is in a checkpoint."""


class TrainingDiverged(LmcellsError):  # noqa: N818 - the same
    """A loss or a gradient is no longer a finite number."""


def require_finite(values: Mapping[str, float], *, step: int, advice: str) -> None:
    """End a run whose losses or gradients, given by name, are no longer numbers."""
    if all(map(math.isfinite, values.values())):
        return
    described = ", ".join(f"{name} {value:g}" for name, value in values.items())
    raise TrainingDiverged(
        f"the loss is no longer finite after step {step:,} ({described}). {advice}; the last checkpoint is from before."
    )


# Seconds of training, and what is done every so many minutes of them.


class Clock:
    """Seconds of training, over all resumptions, without pauses."""

    def __init__(self, seconds_before: float = 0.0) -> None:
        self._before, self._started, self._last_lap = seconds_before, time.monotonic(), seconds_before

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    def lap(self) -> tuple[float, float]:
        """Seconds of training in all, and since the last lap."""
        seconds, last = self.seconds, self._last_lap
        self._last_lap = seconds
        return seconds, seconds - last

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


class Cadence:
    """Something that falls due every so many minutes of a clock; never, if they are 0."""

    def __init__(self, clock: Clock, *, minutes: float) -> None:
        self._clock, self._minutes, self._last = clock, minutes, clock.seconds

    @property
    def is_due(self) -> bool:
        return self._minutes > 0 and self._clock.seconds - self._last >= 60 * self._minutes

    def restart(self) -> None:
        self._last = self._clock.seconds


# What a run says about itself while it goes on.


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A report: means over the centers since the last one, and where the run stands."""

    step: int
    n_steps: int
    epoch: int  # from 1
    n_epochs: int
    centers: int  # so far, of all processes
    centers_per_second: float
    reconstruction: float  # the hinge, a center
    prior_divergence: float  # KL(q || p), a center
    contrastive: float | None  # None when the term is off
    gradient_norm: float  # before clipping, the mean over steps
    seconds: float  # of training so far, over all resumptions
    seconds_left: float
    peak_memory: int  # bytes, of this process' device

    def losses(self) -> dict[str, float]:
        """The parts of the loss by name."""
        parts = {"reconstruction": self.reconstruction, "prior_divergence": self.prior_divergence}
        return parts if self.contrastive is None else {**parts, "contrastive": self.contrastive}

    def to_metrics(self) -> dict[str, Any]:
        """The line of metrics.jsonl: what a later reader needs."""
        skipped = ("n_steps", "n_epochs", "seconds_left")
        return {name: value for name, value in asdict(self).items() if name not in skipped}


def peak_memory(device: torch.device) -> int:
    """The most bytes that were in use at once: of a GPU its tensors, otherwise the process' resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# metrics.jsonl, and TensorBoard where it is installed.


METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class MetricsLog:
    """Appends one JSON object a report. Opened to resume, it first forgets what came after `from_step`."""

    def __init__(self, folder: Path, *, from_step: int) -> None:
        path = folder / METRICS
        kept = [line for line in _lines(path) if json.loads(line)["step"] <= from_step] if from_step else []
        with atomic_write(path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder / TENSORBOARD, purge_step=from_step + 1)

    def write(self, values: Mapping[str, Any]) -> None:
        """Add one object; it has a `step`."""
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
    """The objects of a run's metrics.jsonl, in order; none where there is no such file."""
    yield from map(json.loads, _lines(folder / METRICS))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested mappings, with names like paths; not the step, which is the axis."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            yield prefix + name, value


def _lines(path: Path) -> list[str]:
    """The whole lines of a file; a last one that a killed process left half written is none."""
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _tensorboard(folder: Path, *, purge_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=purge_step)


# When a run was at its best: the paper's hours of pre-training until the scores peak.


METRIC = "macro_f1"  # the headline of every table


@dataclass(frozen=True, slots=True)
class Peak:
    """The best of all evaluations of a run, and when it was reached."""

    metric: str
    score: float  # the mean over the datasets
    step: int
    hours: float  # of training; evaluations do not count

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def peak_of(output: Path, *, metric: str = METRIC) -> Peak | None:
    """The first of a run's best evaluations, over all resumptions, or None where it was never evaluated by it."""
    peak = None
    for line in read_metrics(output):
        datasets = [scores for scores in line.get("evaluation", {}).values() if isinstance(scores, dict)]
        found = [scores[metric] for scores in datasets if metric in scores]
        if not found:
            continue
        score = sum(found) / len(found)
        if peak is None or score > peak.score:
            peak = Peak(metric, score, line["step"], line["hours"])
    return peak
