"""Turning scores into calibrated probabilities, and deciding when to abstain."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np

from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.expansion import LOW_CONFIDENCE, NO_KNOWN_LONG_FORM, NO_SENSE_FITS
from lmcells.expansion.long_forms import Floats
from lmcells.files import read_json, write_json

CALIBRATION = "calibration.json"
"""The file in a model folder."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Softmax with a temperature, and two thresholds below which the expander abstains; by default it never does."""

    temperature: float = 1.0
    least_probability: float = 0.0  # of the best candidate; below it: low_confidence
    least_score: float | None = None  # of the best candidate; below it: no_sense_fits

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature: found {self.temperature}, allowed: a number above 0.")
        if not 0 <= self.least_probability <= 1:
            raise ConfigError(f"least_probability: found {self.least_probability}, allowed: 0 to 1.")
        if self.least_score is not None and not np.isfinite(self.least_score):
            raise ConfigError(f"least_score: found {self.least_score}, allowed: a number or none.")

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of a mention's candidates: 0 where a score is -inf, equal where all are."""
        scores = np.asarray(scores, np.float64)
        best = scores.max(initial=-np.inf)
        if best == -np.inf:
            return np.full(scores.shape, 1 / max(1, scores.size))
        weights = np.exp((scores - best) / self.temperature)
        probabilities: Floats = weights / weights.sum()
        return probabilities

    def reason_to_abstain(self, scores: Floats, probabilities: Floats) -> str | None:
        """Return why to abstain, None where the best candidate is the answer."""
        best = float(np.asarray(scores, np.float64).max(initial=-np.inf))
        if best == -np.inf:
            return NO_KNOWN_LONG_FORM
        if self.least_score is not None and best < self.least_score:
            return NO_SENSE_FITS
        return LOW_CONFIDENCE if float(probabilities.max()) < self.least_probability else None

    def save(self, folder: Path) -> None:
        """Write the calibration into a model folder."""
        write_json(folder / CALIBRATION, {name: getattr(self, name) for name in self.__slots__}, indent=1)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the calibration of a model folder; one without has the default."""
        path = folder / CALIBRATION
        if not path.is_file():
            return cls()
        try:
            saved = read_json(path)
        except (OSError, ValueError, RecursionError):
            raise ModelError(f"{path} is damaged: it is not JSON. Calibrate the model again.") from None
        known = {field.name for field in fields(cls)}
        if not isinstance(saved, dict) or not known.issuperset(saved):
            raise ModelError(
                f"{path} is damaged: allowed are {', '.join(sorted(known))}. Calibrate the model again."
            )
        try:
            return cls(**saved)
        except (ConfigError, TypeError) as error:
            raise ModelError(f"{path} is damaged: {error} Calibrate the model again.") from None
