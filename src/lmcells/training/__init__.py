"""The engine: a corpus and settings -> a trained model. Needs torch, numpy, safetensors and the standard library alone.

What is imported here, settings and metrics, needs no torch.
"""

from lmcells.training.metrics import Progress, TrainingDiverged, TrainingStopped, TrainingWarning
from lmcells.training.settings import PRESETS, TrainingSettings, load_configuration

__all__ = [
    "PRESETS", "Progress", "TrainingDiverged", "TrainingSettings", "TrainingStopped", "TrainingWarning",
    "load_configuration",
]  # fmt: skip
