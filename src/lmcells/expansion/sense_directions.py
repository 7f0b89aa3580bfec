"""Which directions among the cells the senses of a short form have, and how well they fit the direction of a gap.

With g the direction of a gap, c_k those of the gaps that a long form left in the training text (with shares s_k of its
places), f the one that the phrase network gives to its words, and n its count:

    score = a log sum_k s_k exp(g . c_k / t) + (1 - a) g . f / t + b log(1 + n)

with t, a and b the `temperature`, `of_places` and `prior` of `ScoreWeights`. A long form that the training text lacks,
or nearly so, is known by its words alone: a = 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmcells.errors import ConfigError
from lmcells.expansion.long_forms import Floats


@dataclass(frozen=True, kw_only=True)
class ScoreWeights:
    """What the parts of a score weigh; `benchmarks/ranking_study.py` measures others."""

    temperature: float = 0.05  # t, as in training
    of_places: float = 2 / 3  # of what places say against what words say
    prior: float = 0.4  # texts name common things more often than training draws them

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ConfigError(f"temperature: found {self.temperature}, allowed: above 0.")
        if not 0 <= self.of_places <= 1:
            raise ConfigError(f"of_places: found {self.of_places}, allowed: 0 to 1.")


AS_MEASURED = ScoreWeights()


@dataclass(frozen=True, slots=True)
class SenseDirections:
    """All that ranking needs to know of one sense."""

    by_words: Floats | None  # (d,), None where no word can be read
    by_places: Floats  # (K, d), K = 0 where no wording is frequent
    shares: Floats  # (K,)
    count: int

    @property
    def is_known(self) -> bool:
        """Whether there is anything to rank it by; otherwise it comes last."""
        return self.by_words is not None or len(self.shares) > 0

    def weight_of_places(self, usual: float) -> float:
        """Against what the words say; all where there are no words, none where there are no places."""
        if not len(self.shares):
            return 0.0
        return 1.0 if self.by_words is None else usual


class SensesOfShortForm:
    """All senses of a short form, scored together."""

    def __init__(self, senses: Sequence[SenseDirections], weights: ScoreWeights = AS_MEASURED) -> None:
        self.senses = senses
        of_places = np.array([sense.weight_of_places(weights.of_places) for sense in senses])  # (S,)
        has_words = np.array([sense.by_words is not None for sense in senses])
        has_places = np.array([len(sense.shares) > 0 for sense in senses])
        dim = senses[0].by_places.shape[1]
        words = np.stack([np.zeros(dim) if sense.by_words is None else sense.by_words for sense in senses])
        self._words = (words.T * np.where(has_words, 1 - of_places, 0)) / weights.temperature  # (d, S)
        self._places = np.concatenate([sense.by_places for sense in senses]).T / weights.temperature  # (d, R)
        self._log_shares = np.log(np.concatenate([sense.shares for sense in senses]))  # (R,)
        ends = np.cumsum([len(sense.shares) for sense in senses])
        self._starts = np.concatenate([[0], ends[:-1]])[
            has_places
        ]  # of the places of each sense that has any
        self._with_places = np.flatnonzero(has_places)
        self._weights = of_places[has_places]
        known = np.where([sense.is_known for sense in senses], 0.0, -np.inf)
        self._prior = known + weights.prior * np.log1p([sense.count for sense in senses])  # (S,)

    def scores(self, gaps: Floats) -> Floats:
        """How well each sense fits each gap: (B, d) -> (B, S); -inf where nothing is known of one."""
        scores: Floats = gaps @ self._words + self._prior
        if self._starts.size:
            similar = gaps @ self._places + self._log_shares  # (B, R)
            scores[:, self._with_places] += self._weights * np.logaddexp.reduceat(
                similar, self._starts, axis=1
            )
        return scores
