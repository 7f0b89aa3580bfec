"""How a training run can end before its time."""

from lmcells.errors import LmcellsError


class TrainingStopped(LmcellsError):  # noqa: N818 - it tells what happened; nothing is wrong
    """A signal asked the run to stop; its state is in a checkpoint."""


class TrainingDiverged(LmcellsError):  # noqa: N818 - the same
    """A loss or a gradient is no longer a finite number."""
