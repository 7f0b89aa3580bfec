"""The phrase network of a trained model, without torch; see `lmcells.model.phrases`."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.numpy_lstm import Ids
from lmcells.pretrained.one_core import Floats


class NumpyPhraseNetwork:
    """Where phrases belong among the posteriors' means, by the words they have.

    network = NumpyPhraseNetwork.from_arrays(arrays)
    network([np.array([12, 7])])  # a phrase of two words -> (1, d)
    """

    def __init__(self, words: npt.NDArray[Any], weights: Mapping[str, Floats]) -> None:
        self._words = words  # (n_read, E)
        self._weights = weights

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take the tensors of a model's folder: `phrases.` and the vectors in which contexts are read."""
        prefix = "phrases."
        own = {
            name.removeprefix(prefix): np.asarray(array, np.float32)
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        return cls(arrays["variational.context.words.weight"], own)

    def __call__(self, phrases: Sequence[Ids]) -> Floats:
        """Means of phrases, each given by the ids of its words: -> (n, d)."""
        return self.of_vectors([np.asarray(self._words[words], np.float32) for words in phrases])

    def of_vectors(self, phrases: Sequence[Floats]) -> Floats:
        """Means of phrases, each given by the vectors of its words (L, E): -> (n, d)."""
        if not phrases:
            return np.zeros((0, self._weights["mean.bias"].size), np.float32)
        lengths = np.array([len(vectors) for vectors in phrases], np.int64)
        if not lengths.all():
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        words = np.concatenate(phrases)  # (W, E), those of one phrase after those of another
        first = np.cumsum(lengths) - lengths
        # not "@": OpenBLAS 0.3.31 reads uninitialised memory where E is 5, and numpy warns of an invalid value
        scores = np.einsum("we,e->w", words, self._weights["salience.weight"][0])
        weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, first), lengths))
        sums: Floats = np.add.reduceat(weights[:, None] * words, first, axis=0)  # (n, E)
        totals: Floats = np.add.reduceat(weights, first)  # (n,)
        pooled: Floats = sums / totals[:, None]
        hidden = _each_alone(pooled, self._weights["hidden.weight"].T) + self._weights["hidden.bias"]
        np.maximum(hidden, 0, out=hidden)
        means: Floats = _each_alone(hidden, self._weights["mean.weight"].T) + self._weights["mean.bias"]
        return means


def _each_alone(rows: Floats, matrix: Floats) -> Floats:
    """(n, k) @ (k, m), to the last bit the same for a row whichever others there are.

    Each row is a product of its own, of two equal rows: for one row OpenBLAS has a function that errs, see above.
    """
    product: Floats = np.matmul(np.stack([rows, rows], axis=1), matrix)[:, 0]
    return product
