"""Calibrated probabilities from scores, and when to abstain.

- `Calibration`: scores to probabilities, or a reason to abstain;
- `SensePriors`: how often each sense is meant, by the `Writing` of the short form;
- `OrdinaryReadings`: the English word in capitals as one more candidate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import exp, inf, log, log1p
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.expansion import LOW_CONFIDENCE, NO_KNOWN_LONG_FORM, NO_SENSE_FITS
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.look_alikes import QUANTITY_BEFORE, QUANTITY_FOLLOWS, LookAlikes, Written
from lmcells.expansion.ordinary_words import WITH_ORDINARY_READING
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.expansion.windows import Mention
from lmcells.files import read_json, write_json
from lmcells.notes.tokens import STOP_WORDS
from lmcells.pretrained import PretrainedModel
from lmcells.settings import is_finite

CALIBRATION = "calibration.json"
PRIORS = "sense_priors.json"
"""Files in a model folder."""

_MOST_BY_PRIORS = 3.0  # the most that a prior may add to the score of a sense
_PRIOR_WEIGHT = 0.8  # of their log-odds, chosen on left-out sentences: the training notes are of few kinds
# Scores and priors both know how common a sense is, so together they are too sure. Of the log-odds that they add up
# to, chosen on the development halves of judged places, whole notes and everyday sentences:
_WEIGHT_WITH_PRIORS = 0.8
_MOST_DIGITS = 10  # characters before a short form that may be a number
ORDINARY_WEIGHTS = (0.8, 1.05, 1.9, 4.09, -7.96)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Softmax with a temperature, "no sense fits" as a candidate, and two thresholds below which the expander abstains.

    By default it never abstains.
    """

    temperature: float = 1.0
    least_probability: float = 0.0  # of the best candidate; below it: low_confidence
    least_score: float | None = None  # of the best candidate; below it: no_sense_fits
    none_score: float | None = None  # of "no sense fits", which competes with the candidates

    def __post_init__(self) -> None:
        if not (is_finite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature: found {self.temperature!r}, allowed: a number above 0.")
        if not (is_finite(self.least_probability) and 0 <= self.least_probability <= 1):
            raise ConfigError(f"least_probability: found {self.least_probability!r}, allowed: 0 to 1.")
        for name in ("least_score", "none_score"):
            value = getattr(self, name)
            if value is not None and not is_finite(value):
                raise ConfigError(f"{name}: found {value!r}, allowed: a number or none.")

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of a mention's candidates: 0 for a score of -inf, equal if all are."""
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
        weight: float = 1.0,
    ) -> tuple[list[float], str | None]:
        """Return the probabilities of a mention's candidates, none for an ordinary word, and why to abstain, or None.

        Args:
            own: scores by the mention's own window, which decide whether any candidate fits.
            shared: scores that include the rest of the note, which decide between the candidates.
            prior: added to the log-odds of each candidate.
            none_prior: added to the log-odds of "no sense fits".
            ordinary: log-odds of the ordinary word, which competes with the candidates.
            weight: multiplies all log-odds; less than 1 makes less sure.
        """
        # Plain floats are faster than arrays: there are few candidates, and many mentions.
        alone, together = own.tolist(), (own if shared is None else shared).tolist()
        best = max(alone, default=-inf)
        if best == -inf:
            return [1 / max(1, len(alone))] * len(alone), NO_KNOWN_LONG_FORM
        added = prior or [0.0] * len(alone)
        scale = weight / self.temperature
        logits = [score * scale + add * weight for score, add in zip(together, added, strict=True)]
        top = max(logits)
        odds = [exp(logit - top) for logit in logits]
        of_none = 0.0
        if self.none_score is not None:
            fits = [score * scale + add * weight for score, add in zip(alone, added, strict=True)]
            none = self.none_score * scale + none_prior * weight
            ordinary *= weight
            top = max(*fits, none)
            if ordinary > top:
                return [], None
            of_none = exp(none - top) + exp(ordinary - top)
            of_none /= of_none + sum([exp(fit - top) for fit in fits])
        share = (1 - of_none) / sum(odds)
        if not share < inf:  # nor nan
            raise ModelError("the model's scores are not finite numbers. Train it again, or use another.")
        probabilities = [each * share for each in odds]
        if self.least_score is not None and best < self.least_score:
            return probabilities, NO_SENSE_FITS
        if max(probabilities) < self.least_probability:
            return probabilities, NO_SENSE_FITS if of_none > max(probabilities) else LOW_CONFIDENCE
        return probabilities, None

    def save(self, folder: Path) -> None:
        """Write the calibration into a model folder."""
        write_json(folder / CALIBRATION, asdict(self), indent=1)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the calibration of a model folder, or return the default."""
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


class OrdinaryReadings:
    """The word itself as one more candidate: an English word in capitals competes with its senses.

    "ON exam", "LOW RISK" and "HIGH GRADE PIN" may be either. With f how well the word fits the masked span, and n its
    count in the training text:

        log-odds = w1 f / t + w2 log(1 + n) + w3 [function word] + w4 [in all-caps text] + w5

    which is compared with s / t, the scores of the senses; see `Calibration.judge` for t. The weights are learnt
    without labels from long forms and words in training notes: benchmarks/ordinary_reading.py.
    """

    def __init__(self, model: PretrainedModel) -> None:
        self._model = model

    @cached_property
    def ranker(self) -> MaskedSpanRanker:
        return MaskedSpanRanker(self._model, self)  # type: ignore[arg-type]  # see `LetterSenses`

    def senses(self, short_form: str) -> tuple[Sense, ...]:
        """Return the word itself as the only candidate, for a ranker."""
        return (Sense(short_form, short_form.lower(), (short_form.lower(),)),)

    def log_odds(
        self, mentions: Sequence[Mention], scores: Sequence[Floats], calibration: Calibration
    ) -> list[float]:
        """Return the log-odds of the ordinary reading of each mention, given the scores of its senses.

        -inf if it has none, inf if no sense comes close to fitting.
        """
        found = [inf if self._has_reading(mention) else -inf for mention in mentions]
        least = -inf if calibration.none_score is None else calibration.none_score - _MOST_BY_PRIORS
        rows = [row for row, known in enumerate(found) if known == inf and scores[row].max() > least]
        fits = self.ranker.scores([mentions[row] for row in rows]) if rows else ()
        for row, (fit,) in zip(rows, fits, strict=True):
            features = (fit / calibration.temperature, *self.features(mentions[row]), 1.0)
            found[row] = sum(map(mul, ORDINARY_WEIGHTS, features))
        return found

    def _has_reading(self, mention: Mention) -> bool:
        written = mention.text[mention.start : mention.end]
        lower = written.lower()
        if not (written.isupper() and lower in WITH_ORDINARY_READING and lower in self._model.word_ids):
            return False
        return not LookAlikes(mention.text).is_no_word(Written(mention.start, mention.end, written))

    def features(self, mention: Mention) -> tuple[float, ...]:
        """Return the features of a mention with an ordinary reading, except how well it fits."""
        start, end, word = mention.start, mention.end, mention.text[mention.start : mention.end].lower()
        return (
            log1p(int(self._model.word_counts[self._model.word_ids[word]])),
            float(word in STOP_WORDS),
            float(LookAlikes(mention.text).is_shouted(Written(start, end, word.upper()))),
        )


class Writing(NamedTuple):
    """How a short form is written in its place, which says something about its sense.

    "gtt" is a drip and "GTT" a test; "MS 2 mg" is morphine and "PT 13.2" a time; "5 MM" is a length, "MM" a disease.
    """

    in_lower_case: bool = False
    pattern: str = "{}"  # "{} #" before a number, "# {}" after one

    @classmethod
    def of(cls, mention: Mention) -> Self:
        text, start, end = mention.text, mention.start, mention.end
        pattern = "{}"
        if QUANTITY_FOLLOWS.match(text, end):
            pattern = "{} #"
        elif QUANTITY_BEFORE.search(text, max(0, start - _MOST_DIGITS), start):
            pattern = "# {}"
        return cls(text[start:end].islower(), pattern)

    def keys(self, short_form: str) -> Iterator[str]:
        """Yield the keys of the priors of a short form written so, the closest first."""
        if self.pattern != "{}":
            yield self.pattern.format(short_form)
        if self.in_lower_case:
            yield short_form.lower()
        yield short_form


@dataclass(frozen=True)
class SensePriors:
    """How often notes mean each sense of a short form, and how often none (""), learnt without labels.

    A short form in lower case ("hr"), before a number ("HR #") or after one ("# HR") has shares of its own if they are
    known. The priors belong to the shipped inventory; others are ranked without priors.
    """

    shares: dict[str, dict[str, float]]

    @property
    def weight(self) -> float:
        """What the log-odds of scores and priors together are multiplied by."""
        return _WEIGHT_WITH_PRIORS if self.shares else 1.0

    def of(self, short_form: str, long_forms: Sequence[str], writing: Writing) -> tuple[list[float], float]:
        """Return what to add to the log-odds of each sense, and of "no sense fits"."""
        shares = next((self.shares[key] for key in writing.keys(short_form) if key in self.shares), None)
        if shares is None:
            return [0.0] * len(long_forms), 0.0
        *of_senses, of_none = (
            _PRIOR_WEIGHT * log(shares.get(each, 1 / len(shares)) * len(shares)) for each in (*long_forms, "")
        )
        return of_senses, of_none

    def save(self, folder: Path) -> None:
        """Write the priors into a model folder; beside numbers, shares alone, in the order of the short form's."""
        saved: dict[str, Any] = dict(self.shares)
        for key, shares in self.shares.items():
            plain = self.shares.get(_without_number(key), {})
            if plain is not shares and list(plain) == list(shares):
                saved[key] = list(shares.values())
        write_json(folder / PRIORS, saved)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the priors of a model folder, if it has any."""
        path = folder / PRIORS
        try:
            saved = read_json(path) if path.is_file() else {}
            shares = {
                key: dict(zip(saved[_without_number(key)], given, strict=True))
                if type(given) is list
                else given
                for key, given in saved.items()
            }
            every = [share for by_sense in shares.values() for share in by_sense.values()]
            if all(0 < share <= 1 for share in every) and all(shares.values()):
                return cls(shares)
            problem = "a share is not above 0 and at most 1"
        except (OSError, ValueError, RecursionError):
            problem = "it is not JSON, or shares are missing"
        except (AttributeError, KeyError, TypeError):
            problem = "it does not hold the shares of senses"
        raise ModelError(f"{path} is damaged: {problem}. Download the model again.")


def _without_number(key: str) -> str:
    """Return the short form of "MS #" and "# MS"."""
    return key.removesuffix(" #").removeprefix("# ")
