"""Long forms under no section: -KL(q || p(z | long form, null)), the ranking of the paper's interpolation figure."""

import numpy as np

from lmcells.expansion.long_forms import LongFormMoments, long_form_words
from lmcells.expansion.ranking import CellRanker
from lmcells.pretrained.numpy_prior import NumpyModelNetwork


class NullMetadataRanker(CellRanker):
    """Ranks by the divergence from one Gaussian a long form, which no section moves."""

    def moments(self, short_form: str) -> LongFormMoments:
        """Return the moments of the candidates: those of a mixture of one; computed once."""
        if short_form not in self._moments:
            self._moments[short_form] = self._of_null(short_form)
        return self._moments[short_form]

    def _of_null(self, short_form: str) -> LongFormMoments:
        prior = self.model.prior
        assert isinstance(prior, NumpyModelNetwork)  # of a model that reads sections
        words = [long_form_words(sense, self.model) for sense in self.inventory.senses(short_form)]
        known = np.array([bool(of_sense) for of_sense in words])
        vectors = np.zeros((len(words), self.model.sizes.embedding_dim), np.float32)
        for row in np.flatnonzero(known):
            vectors[row] = prior.phrase(np.array(words[row]))
        cells = prior.of_vectors(vectors, None)
        mean, log_variance = cells.mean.astype(np.float64), cells.log_variance.astype(np.float64)
        precision = np.exp(-log_variance)
        return LongFormMoments(
            a0=precision,
            a1=precision[:, None] * mean,
            a2=precision * (mean * mean).sum(axis=1),
            a3=log_variance,
            known=known,
        )
