"""The cells of all words of a model at once: under a section, without one, or expected over a word's own sections."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from lmcells.analysis.mixtures.expectation import expected_words
from lmcells.analysis.names import metadata_id
from lmcells.analysis.statistics.distances import Floats
from lmcells.analysis.statistics.gaussians import isotropic_divergence
from lmcells.errors import InputError
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel

Ids = npt.NDArray[np.int64]

_N_FREQUENT = 10_000  # words that are looked at unless said otherwise


class WordCells:
    """Cells of a model's words, p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE; make one and keep it.

    cells = WordCells(model)
    cells.of(words, "SOCIAL HISTORY")   # one Gaussian a word, under a section
    cells.of(words, NULL_SECTION)       # null metadata
    cells.of(words, None)               # expected over the sections in which each word was seen
    """

    def __init__(self, model: PretrainedModel) -> None:
        self.model = model

    def of(self, words: Ids, section: str | None) -> NumpyGaussian:
        """The cells of some words: (n,) -> n Gaussians."""
        if section is None:
            return NumpyGaussian(self.expected.mean[words], self.expected.log_variance[words])
        metadata, prior = metadata_id(self.model, section), self.model.prior
        return prior(words, np.asarray(metadata)) if isinstance(prior, NumpyModelNetwork) else prior(words)

    @cached_property
    def expected(self) -> NumpyGaussian:
        """The expected meaning of each word: its mean, and the expected variance of its cells; computed once."""
        moments = expected_words(self.model)
        return NumpyGaussian(moments.mean.astype(np.float32), np.log(moments.within).astype(np.float32))

    def frequent(self, min_count: int | None = None, *, besides: int | None = None) -> Ids:
        """Words seen often enough to be looked at, without placeholders, nor the word that others are held against.

        Unless said otherwise about the 10,000 commonest.
        """
        counts = self.model.word_counts
        if min_count is None:
            min_count = int(np.sort(counts)[-min(_N_FREQUENT, counts.size)])
        often: Ids = np.flatnonzero((counts >= min_count) & self._is_word)
        often = often if besides is None else often[often != besides]
        if not often.size:
            raise InputError(
                f"no {'' if besides is None else 'other '}word was seen at least {min_count:,} times. "
                "Lower the minimum count (--min-count)."
            )
        return often

    @cached_property
    def _is_word(self) -> npt.NDArray[np.bool_]:
        return np.array([not word.startswith("<") for word in self.model.words], np.bool_)


def kl_divergence(q: NumpyGaussian, p: NumpyGaussian) -> Floats:
    """KL(q || p) of cells in nats; leading axes broadcast."""
    offset = q.mean - p.mean  # (..., d)
    return isotropic_divergence(
        np.einsum("...d,...d->...", offset, offset),
        log_variance=q.log_variance,
        other_log_variance=p.log_variance,
        dim=offset.shape[-1],
    )
