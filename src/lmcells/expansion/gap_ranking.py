"""Ranking by the gap that a short form leaves: which long form would fit where it stands?

The short form is taken out of the text, and the posterior of the gap is a direction g among the cells. What would fit
is known in two ways: by the directions c_k of the gaps that a long form left in the training text (with shares s_k of
its places), and by the direction f that the phrase network gives to its words. With n the long form's count:

    score = 2/3 log sum_k s_k exp(g . c_k / t) + 1/3 g . f / t + prior log(1 + n)

A long form that the training text has not, or has rarely, is known by its words alone: g . f / t.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.posterior_ranking import PosteriorRanker, Scorer
from lmcells.expansion.windows import WindowReader
from lmcells.expansion.wordings import Wording, remains, with_plurals, wordings
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_network import NumpyPosterior

TEMPERATURE = 0.05  # as in training
OF_PLACES = 2 / 3  # weight of what places say against what words say
PRIOR = 0.3  # of the logarithm of the count: a little, for training draws units from count^0.5 already
_MOST_PLACES = 300  # of a wording among others: a common one should not drown the rest


@dataclass(frozen=True, slots=True)
class SenseDirections:
    """All that ranking needs to know of one sense."""

    by_words: Floats | None  # (d,), None where no word can be read
    by_places: Floats  # (K, d), K = 0 where no wording is frequent
    shares: Floats  # (K,)
    count: int

    def scores(self, gaps: Floats) -> Floats:
        """How well the sense fits each gap: (B, d) -> (B,)."""
        ways: list[Floats] = []
        weights: list[float] = []
        if self.by_words is not None:
            ways.append(gaps @ self.by_words / TEMPERATURE)
            weights.append(1 - OF_PLACES)
        if len(self.shares):
            similar = gaps @ self.by_places.T / TEMPERATURE + np.log(self.shares)  # (B, K)
            ways.append(np.logaddexp.reduce(similar, axis=1))
            weights.append(OF_PLACES)
        if not ways:
            return np.full(len(gaps), -np.inf)
        score: Floats = np.average(ways, axis=0, weights=weights) + PRIOR * np.log1p(self.count)
        return score


class GapRanker(PosteriorRanker):
    """Ranks with the phrase network and the phrase store of a model that has them.

    ranker = GapRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better
    """

    def __init__(self, model: PretrainedModel, inventory: SenseInventory) -> None:
        if model.phrase_network is None or model.phrase_store is None:
            raise ModelError(
                f"{model.folder} has no phrase network and store, which ranking by gaps needs. "
                "Train with the preset default, or rank by divergence."
            )
        sizes = model.sizes
        reader = WindowReader(
            model.word_ids,
            radius=sizes.window,
            hides_center=True,
            gap_id=sizes.gap_id if sizes.marks_gap else None,
            subwords=model.subwords,
        )
        super().__init__(model, inventory, reader=reader)
        self._network, self._store = model.phrase_network, model.phrase_store
        self._senses: dict[str, list[SenseDirections]] = {}

    def directions(self, short_form: str) -> list[SenseDirections]:
        """Return what is known of a short form's candidates; looked up once."""
        if short_form not in self._senses:
            self._senses[short_form] = [self._of_sense(sense) for sense in self.inventory.senses(short_form)]
        return self._senses[short_form]

    def _scorer(self, posterior: NumpyPosterior) -> Scorer:
        gaps = _directions(posterior.mean - self._store.gap_center)
        return lambda short_form, rows: np.stack(
            [sense.scores(gaps[rows]) for sense in self.directions(short_form)], axis=1
        )

    def _of_sense(self, sense: Sense) -> SenseDirections:
        written = wordings(sense.forms)
        vectors = [self._vectors(words) for words in written or remains(sense.forms)]
        vectors = [of_words for of_words in vectors if len(of_words)]
        found = [places for words in with_plurals(written) if (places := self._store.find(words))]
        by_words = None
        if vectors:
            means = self._network.of_vectors(vectors)
            by_words = _directions(_directions(means - self._store.phrase_center).mean(axis=0))
        weights = np.array([min(places.count, _MOST_PLACES) for places in found], np.float64)
        shares = [
            weight * places.shares for weight, places in zip(weights / weights.sum(), found, strict=True)
        ]
        dim = self.model.sizes.cell_dim
        return SenseDirections(
            by_words=by_words,
            by_places=np.concatenate([np.zeros((0, dim)), *(places.directions for places in found)]),
            shares=np.concatenate([np.zeros(0), *shares]),
            count=sum(places.count for places in found),
        )

    def _vectors(self, words: Wording) -> npt.NDArray[np.float32]:
        """The vectors of those words of a phrase that can be read: -> (L, E)."""
        vectors = (self.model.word_vector(word) for word in words)
        return np.array([vector for vector in vectors if vector is not None], np.float32)


def _directions(vectors: npt.NDArray[np.floating]) -> Floats:
    """Vectors of length 1: (..., d) -> (..., d)."""
    exact = np.asarray(vectors, np.float64)
    directions: Floats = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)
    return directions
