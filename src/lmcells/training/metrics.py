"""metrics.jsonl, and TensorBoard where it is installed."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from lmcells.files import atomic_write

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
