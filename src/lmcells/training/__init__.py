"""The engine: a corpus and settings -> a trained model. Needs torch, numpy, safetensors and the standard library alone.

Settings and metrics need no torch: the rest is imported only when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmcells.training.configuration import PRESETS, Configuration, load_configuration
from lmcells.training.metrics import Progress, TrainingDiverged, TrainingStopped, TrainingWarning
from lmcells.training.settings import TrainingSettings

if TYPE_CHECKING:
    from lmcells.training.cells import train
    from lmcells.training.checkpoint import DamagedCheckpoint
    from lmcells.training.loop import TrainingResult

_MODULE_OF = {"DamagedCheckpoint": "checkpoint", "TrainingResult": "loop", "train": "cells"}

__all__ = [
    "PRESETS",
    "Configuration",
    "DamagedCheckpoint",
    "Progress",
    "TrainingDiverged",
    "TrainingResult",
    "TrainingSettings",
    "TrainingStopped",
    "TrainingWarning",
    "load_configuration",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
