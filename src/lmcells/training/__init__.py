"""The engine: corpus and settings -> a trained model. Needs torch, numpy and the standard library alone."""

from lmcells.training.checkpoint import DamagedCheckpoint
from lmcells.training.configuration import PRESETS, Configuration, load_configuration
from lmcells.training.loop import TrainingResult, train
from lmcells.training.progress import Progress, TrainingDiverged, TrainingStopped
from lmcells.training.settings import TrainingSettings

__all__ = [
    "PRESETS",
    "Configuration",
    "DamagedCheckpoint",
    "Progress",
    "TrainingDiverged",
    "TrainingResult",
    "TrainingSettings",
    "TrainingStopped",
    "load_configuration",
    "train",
]
