"""Looking up what a model knows of senses, many at a time: each step is one array operation for all of them."""

from collections.abc import Sequence
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.sense_directions import SenseDirections
from lmcells.expansion.wordings import Wording, remains, with_plurals, wordings
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_phrases import NumpyPhraseNetwork
from lmcells.pretrained.phrase_store import Occurrences, PhraseStore

_MOST_PLACES = 300  # of a wording among others: a common one should not drown the rest


class SenseReader:
    """Reads senses by their words and by their places in the training text.

    read = SenseReader(model, network, store)
    read(inventory.senses("MI"))   # one SenseDirections a sense
    """

    def __init__(self, model: PretrainedModel, network: NumpyPhraseNetwork, store: PhraseStore) -> None:
        self._model, self._network, self._store = model, network, store

    def __call__(self, senses: Sequence[Sense]) -> list[SenseDirections]:
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
        directions: list[Floats | None] = [None] * len(phrases)
        if not vectors:
            return directions
        each = unit_length(self._network.of_vectors(vectors) - self._store.phrase_center)  # (n, d)
        distinct, first, sizes = np.unique(owners, return_index=True, return_counts=True)
        means = unit_length(np.add.reduceat(each, first, axis=0) / sizes[:, None])
        for owner, mean in zip(distinct.tolist(), means, strict=True):
            directions[owner] = mean
        return directions

    def _places(self, phrases: Sequence[Sequence[Wording]]) -> list[list[Occurrences]]:
        """What is known of the places of each sense's wordings."""
        found = iter(self._store.find_all(list(chain.from_iterable(phrases))))
        return [
            [places for places in islice(found, len(of_sense)) if places is not None] for of_sense in phrases
        ]

    def _joined(self, by_words: Floats | None, found: Sequence[Occurrences]) -> SenseDirections:
        weights = np.array([min(places.count, _MOST_PLACES) for places in found], np.float64)
        shares = [
            weight * places.shares for weight, places in zip(weights / weights.sum(), found, strict=True)
        ]
        dim = self._model.sizes.cell_dim
        return SenseDirections(
            by_words=by_words,
            by_places=np.concatenate([np.zeros((0, dim)), *(places.directions for places in found)]),
            shares=np.concatenate([np.zeros(0), *shares]),
            count=sum(places.count for places in found),
        )


def unit_length(vectors: npt.NDArray[np.floating]) -> Floats:
    """Vectors of length 1, in double precision: (..., d) -> (..., d)."""
    exact = np.asarray(vectors, np.float64)
    directions: Floats = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)
    return directions
