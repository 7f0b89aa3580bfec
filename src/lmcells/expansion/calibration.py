"""Turning scores into calibrated probabilities, and deciding when to abstain."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import exp, inf, log
from pathlib import Path
from typing import Self

import numpy as np

from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.expansion import LOW_CONFIDENCE, NO_KNOWN_LONG_FORM, NO_SENSE_FITS
from lmcells.expansion.long_forms import Floats
from lmcells.files import read_json, write_json

CALIBRATION = "calibration.json"
PRIORS = "sense_priors.json"
"""Files in a model folder."""

ORDINARY_WORD = "ordinary_word"
"""Why there is nothing to expand: the ordinary reading of what is written is more likely than any sense."""

PRIOR_WEIGHT = 0.5  # of the logarithm of a share, against that of a score


@dataclass(frozen=True, slots=True)
class Calibration:
    """Softmax with a temperature, "no sense fits" among the candidates, and two thresholds below which the expander
    abstains; by default it never does."""

    temperature: float = 1.0
    least_probability: float = 0.0  # of the best candidate; below it: low_confidence
    least_score: float | None = None  # of the best candidate; below it: no_sense_fits
    none_score: float | None = None  # of "no sense fits", which competes with the candidates

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

    def judge(
        self,
        own: Floats,
        shared: Floats | None = None,
        *,
        prior: Sequence[float] | None = None,
        none_prior: float = 0.0,
        ordinary: float = -inf,
    ) -> tuple[list[float], str | None]:
        """Return the probabilities of a mention's candidates, and why to abstain, None where the best is the answer.

        Args:
            own: scores by the mention's own window, which tell whether any candidate is meant.
            shared: scores that take the rest of the note into account, which tell the candidates apart.
            prior: what to add to the log-odds of each candidate.
            none_prior: what to add to those of "no sense fits".
            ordinary: log-odds of the ordinary reading of what is written, which competes with the candidates.
        """
        # Plain floats: there are few candidates, and many mentions.
        alone, together = own.tolist(), (own if shared is None else shared).tolist()
        best = max(alone, default=-inf)
        if best == -inf:
            return [1 / max(1, len(alone))] * len(alone), NO_KNOWN_LONG_FORM
        added = prior or [0.0] * len(alone)
        logits = [score / self.temperature + add for score, add in zip(together, added, strict=True)]
        top = max(logits)
        weights = [exp(logit - top) for logit in logits]
        of_none = 0.0
        if self.none_score is not None:
            fits = [score / self.temperature + add for score, add in zip(alone, added, strict=True)]
            none = self.none_score / self.temperature + none_prior
            top = max(*fits, none)
            if ordinary > top:
                return [], ORDINARY_WORD
            of_none = exp(none - top) + exp(ordinary - top)
            of_none /= of_none + sum([exp(fit - top) for fit in fits])
        scale = (1 - of_none) / sum(weights)
        probabilities = [weight * scale for weight in weights]
        if self.least_score is not None and best < self.least_score:
            return probabilities, NO_SENSE_FITS
        if max(probabilities) < self.least_probability:
            return probabilities, NO_SENSE_FITS if of_none > max(probabilities) else LOW_CONFIDENCE
        return probabilities, None

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


@dataclass(frozen=True)
class SensePriors:
    """How often each sense of a short form is meant in notes, and how often none ("") is, learnt without labels.

    They belong to one inventory, the shipped one; others are ranked without.
    """

    shares: dict[str, dict[str, float]]

    def of(self, short_form: str, long_forms: Sequence[str]) -> tuple[list[float], float]:
        """Return what to add to the log-odds of each sense, and of "no sense fits", relative to no prior."""
        shares = self.shares.get(short_form)
        if shares is None:
            return [0.0] * len(long_forms), 0.0
        *of_senses, of_none = (
            PRIOR_WEIGHT * log(shares.get(each, 1 / len(shares)) * len(shares)) for each in (*long_forms, "")
        )
        return of_senses, of_none

    def save(self, folder: Path) -> None:
        """Write the priors into a model folder."""
        write_json(folder / PRIORS, self.shares)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the priors of a model folder; one without has none."""
        path = folder / PRIORS
        try:
            return cls(read_json(path) if path.is_file() else {})
        except (OSError, ValueError, RecursionError):
            raise ModelError(f"{path} is damaged: it is not JSON. Download the model again.") from None
