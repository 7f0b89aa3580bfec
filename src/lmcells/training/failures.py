"""How a training run can end before its time."""

import math
from collections.abc import Mapping

from lmcells.errors import LmcellsError


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
