"""Ranking by the gap that a short form leaves: which long form would fit where it stands?

The short form is taken out of the text, and the posterior of the gap is a direction among the cells. What would fit is
known in two ways: by the gaps that a long form left in the training text, and by its words (see `sense_directions`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.posterior_ranking import PosteriorRanker, Scorer
from lmcells.expansion.sense_directions import SenseDirections, SensesOfShortForm
from lmcells.expansion.windows import WindowReader
from lmcells.expansion.wordings import Wording, remains, with_plurals, wordings
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_network import NumpyPosterior

_MOST_PLACES = 300  # of a wording among others: a common one should not drown the rest


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
            stop_words=model.reads_stop_words,
        )
        super().__init__(model, inventory, reader=reader)
        self._network, self._store = model.phrase_network, model.phrase_store
        self._senses: dict[str, SensesOfShortForm] = {}

    def directions(self, short_form: str) -> Sequence[SenseDirections]:
        """Return what is known of a short form's candidates."""
        return self._of_short_form(short_form).senses

    def _of_short_form(self, short_form: str) -> SensesOfShortForm:
        """Look up a short form's candidates, once."""
        if short_form not in self._senses:
            candidates = self.inventory.senses(short_form)
            self._senses[short_form] = SensesOfShortForm([self._of_sense(sense) for sense in candidates])
        return self._senses[short_form]

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        gaps = _directions(posterior.mean - self._store.gap_center)
        return lambda short_form, rows: self._of_short_form(short_form).scores(gaps[rows])

    def _of_sense(self, sense: Sense) -> SenseDirections:
        stop_words = self.model.reads_stop_words
        written = wordings(sense.forms, stop_words=stop_words)
        vectors = [self._vectors(words) for words in written or remains(sense.forms, stop_words=stop_words)]
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
