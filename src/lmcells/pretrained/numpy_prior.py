"""What a word means before its context is read, without torch: p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.numpy_heads import NumpyGaussian, NumpyHeads
from lmcells.pretrained.numpy_lstm import Ids
from lmcells.pretrained.one_core import Floats

Arrays = Mapping[str, npt.NDArray[Any]]
_PREFIX = "prior."


class NumpyModelNetwork:
    """p(z | w, m): h = ReLU(W [R_w ; R_m] + b), then a mean and a log-variance. Null metadata is R_m = 0.

    prior = NumpyModelNetwork.from_arrays(arrays)
    prior(words, metadata)                            # paired ids of one shape
    prior.of_vectors(prior.phrase(words), metadata)   # a phrase: the mean of its words' vectors
    """

    def __init__(
        self, words: npt.NDArray[Any], of_metadata: Floats, *, of_word: Floats, heads: NumpyHeads
    ) -> None:
        self._words = words  # (V, E)
        self._of_metadata = of_metadata  # (M + 1, H): W_m R_m + b, null metadata last
        self._of_word = of_word  # (E, H)
        self._heads = heads

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Take the tensors of a model's folder (other names than `prior.` are left)."""
        own = {
            name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)
        }
        words, weight = own["words.weight"], np.asarray(own["hidden.weight"], np.float32).T  # (V, E), (2E, H)
        width = words.shape[1]
        of_metadata = (
            np.asarray(own["metadata.weight"], np.float32) @ weight[width:]
        )  # (M, H), projected once
        with_null = np.vstack([of_metadata, np.zeros_like(of_metadata[:1])])
        with_null += np.asarray(own["hidden.bias"], np.float32)
        return cls(words, with_null, of_word=weight[:width].copy(), heads=NumpyHeads.from_arrays(own))

    def __call__(self, words: Ids, metadata: Ids | None) -> NumpyGaussian:
        """One Gaussian a pair of ids, both of the same shape; metadata below 0, or None, is null."""
        return self.of_vectors(np.asarray(self._words[words], np.float32), metadata)

    def of_vectors(self, vectors: Floats, metadata: Ids | None) -> NumpyGaussian:
        """The same for word vectors (..., E), such as a phrase's; the leading axes may broadcast with metadata's."""
        null = np.asarray(-1)
        # Row -1 is the last one, and the last one is null metadata.
        of_metadata = self._of_metadata[null if metadata is None else np.maximum(metadata, null)]  # (..., H)
        hidden = vectors @ self._of_word + of_metadata
        np.maximum(hidden, 0, out=hidden)
        return self._heads(hidden)

    def phrase(self, words: Ids) -> Floats:
        """The mean of the vectors of some words: (n,) -> (E,)."""
        if not words.size:
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        mean: Floats = np.asarray(self._words[words], np.float32).mean(axis=0)
        return mean


class NumpyWordPrior:
    """p(z | w): a table with one Gaussian an id; see `lmcells.model.WordPrior`."""

    def __init__(self, mean: npt.NDArray[Any], log_variance: npt.NDArray[Any]) -> None:
        self._mean = mean  # (n_centers, d)
        self._log_variance = log_variance  # (n_centers,)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Take the tensors of a model's folder (other names than `prior.` are left)."""
        return cls(arrays[f"{_PREFIX}mean.weight"], arrays[f"{_PREFIX}log_variance.weight"][:, 0])

    def __call__(self, words: Ids) -> NumpyGaussian:
        """One Gaussian an id."""
        return NumpyGaussian(
            np.asarray(self._mean[words], np.float32), np.asarray(self._log_variance[words], np.float32)
        )

    def phrase(self, words: Ids) -> NumpyGaussian:
        """The Gaussian of a phrase: its words' means and log-variances, averaged."""
        if not words.size:
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        each = self(words)
        return NumpyGaussian(each.mean.mean(axis=0), each.log_variance.mean(axis=0))
