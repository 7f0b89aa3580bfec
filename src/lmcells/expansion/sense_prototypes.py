"""Looking up what a model knows of senses, many at a time: each step is one array operation for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from lmcells.errors import ConfigError
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats, Wording, remains, with_plurals, wordings
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.network import NumpyPhraseNetwork
from lmcells.pretrained.phrase_store import Occurrences, PhraseStore

# Which prototypes among the cells the senses of a short form have, and how well they fit the direction of a gap.
#
# With g the direction of a gap, c_k those of the masked_spans that a long form left in the training text (with shares s_k of its
# places), f the one that the phrase network gives to its words, and n its count:
#
#     score = a log sum_k s_k exp(g . c_k / t) + (1 - a) g . f / t + b log(1 + n)
#
# with t, a and b the `temperature`, `of_occurrences` and `prior` of `ScoreWeights`. A long form that the training text lacks,
# or nearly so, is known by its words alone: a = 0.


@dataclass(frozen=True, kw_only=True)
class ScoreWeights:
    """What the parts of a score weigh; `benchmarks/ranking_study.py` measures others."""

    temperature: float = 0.05  # t, as in training
    of_occurrences: float = 2 / 3  # of what places say against what words say
    prior: float = 0.4  # texts name common things more often than training draws them

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ConfigError(f"temperature: found {self.temperature}, allowed: above 0.")
        if not 0 <= self.of_occurrences <= 1:
            raise ConfigError(f"of_occurrences: found {self.of_occurrences}, allowed: 0 to 1.")


AS_MEASURED = ScoreWeights()


@dataclass(frozen=True, slots=True)
class SensePrototypes:
    """All that ranking needs to know of one sense."""

    by_words: Floats | None  # (d,), None where no word can be read
    by_occurrences: Floats  # (K, d), K = 0 where no wording is frequent
    shares: Floats  # (K,)
    count: int

    @property
    def is_known(self) -> bool:
        """Whether there is anything to rank it by; otherwise it comes last."""
        return self.by_words is not None or len(self.shares) > 0

    def weight_of_occurrences(self, usual: float) -> float:
        """Against what the words say; all where there are no words, none where there are no places."""
        if not len(self.shares):
            return 0.0
        return 1.0 if self.by_words is None else usual


class SensesOfShortForm:
    """All senses of a short form, scored together."""

    def __init__(self, senses: Sequence[SensePrototypes], weights: ScoreWeights = AS_MEASURED) -> None:
        self.senses = senses
        of_occurrences = np.array(
            [sense.weight_of_occurrences(weights.of_occurrences) for sense in senses]
        )  # (S,)
        has_words = np.array([sense.by_words is not None for sense in senses])
        has_occurrences = np.array([len(sense.shares) > 0 for sense in senses])
        dim = senses[0].by_occurrences.shape[1]
        words = np.stack([np.zeros(dim) if sense.by_words is None else sense.by_words for sense in senses])
        self._words = (words.T * np.where(has_words, 1 - of_occurrences, 0)) / weights.temperature  # (d, S)
        self._places = (
            np.concatenate([sense.by_occurrences for sense in senses]).T / weights.temperature
        )  # (d, R)
        self._log_shares = np.log(np.concatenate([sense.shares for sense in senses]))  # (R,)
        ends = np.cumsum([len(sense.shares) for sense in senses])
        self._starts = np.concatenate([[0], ends[:-1]])[
            has_occurrences
        ]  # of the places of each sense that has any
        self._with_occurrences = np.flatnonzero(has_occurrences)
        self._weights = of_occurrences[has_occurrences]
        known = np.where([sense.is_known for sense in senses], 0.0, -np.inf)
        self._prior = known + weights.prior * np.log1p([sense.count for sense in senses])  # (S,)

    def scores(self, masked_spans: Floats) -> Floats:
        """How well each sense fits each gap: (B, d) -> (B, S); -inf where nothing is known of one."""
        scores: Floats = masked_spans @ self._words + self._prior
        if self._starts.size:
            similar = masked_spans @ self._places + self._log_shares  # (B, R)
            scores[:, self._with_occurrences] += self._weights * np.logaddexp.reduceat(
                similar, self._starts, axis=1
            )
        return scores


# Looking up what a model knows of senses, many at a time: each step is one array operation for all of them.


_MOST_PLACES = 300  # of a wording among others: a common one should not drown the rest


class SenseReader:
    """Reads senses by their words and by their places in the training text.

    read = SenseReader(model, network, store)
    read(inventory.senses("MI"))   # one SensePrototypes a sense
    """

    def __init__(self, model: PretrainedModel, network: NumpyPhraseNetwork, store: PhraseStore) -> None:
        self._model, self._network, self._store = model, network, store

    def __call__(self, senses: Sequence[Sense]) -> list[SensePrototypes]:
        """Return what is known of each sense."""
        stop_words = self._model.reads_stop_words
        written = [wordings(sense.forms, stop_words=stop_words) for sense in senses]
        by_words = self._by_words(
            [
                of_sense or remains(sense.forms, stop_words=stop_words)
                for sense, of_sense in zip(senses, written, strict=True)
            ]
        )
        places = self._places([with_plurals(of_sense) for of_sense in written])
        return [self._joined(*known) for known in zip(by_words, places, strict=True)]

    def _by_words(self, phrases: Sequence[Sequence[Wording]]) -> list[Floats | None]:
        """The direction that each sense's phrases have on average, None where no word can be read."""
        known = self._model.word_vectors(
            list(dict.fromkeys(chain.from_iterable(chain.from_iterable(phrases))))
        )
        vectors, owners = [], []
        for owner, of_sense in enumerate(phrases):
            for words in of_sense:
                of_words = [known[word] for word in words if word in known]
                if of_words:
                    vectors.append(np.array(of_words, np.float32))
                    owners.append(owner)
        prototypes: list[Floats | None] = [None] * len(phrases)
        if not vectors:
            return prototypes
        each = unit_length(self._network.of_vectors(vectors) - self._store.phrase_center)  # (n, d)
        distinct, first, sizes = np.unique(owners, return_index=True, return_counts=True)
        means = unit_length(np.add.reduceat(each, first, axis=0) / sizes[:, None])
        for owner, mean in zip(distinct.tolist(), means, strict=True):
            prototypes[owner] = mean
        return prototypes

    def _places(self, phrases: Sequence[Sequence[Wording]]) -> list[list[Occurrences]]:
        """What is known of the places of each sense's wordings."""
        found = iter(self._store.find_all(list(chain.from_iterable(phrases))))
        return [
            [places for places in islice(found, len(of_sense)) if places is not None] for of_sense in phrases
        ]

    def _joined(self, by_words: Floats | None, found: Sequence[Occurrences]) -> SensePrototypes:
        weights = np.array([min(places.count, _MOST_PLACES) for places in found], np.float64)
        shares = [
            weight * places.shares for weight, places in zip(weights / weights.sum(), found, strict=True)
        ]
        dim = self._model.sizes.cell_dim
        return SensePrototypes(
            by_words=by_words,
            by_occurrences=np.concatenate([np.zeros((0, dim)), *(places.prototypes for places in found)]),
            shares=np.concatenate([np.zeros(0), *shares]),
            count=sum(places.count for places in found),
        )


def unit_length(vectors: npt.NDArray[np.floating]) -> Floats:
    """Vectors of length 1, in double precision: (..., d) -> (..., d)."""
    exact = np.asarray(vectors, np.float64)
    prototypes: Floats = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)
    return prototypes
