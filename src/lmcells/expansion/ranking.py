"""Ranking the candidates of a short form in context, as the paper does: by divergence from the long form's prior."""

import numpy as np

from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import (
    LongFormMoments,
    SectionWeights,
    long_form_moments,
    smoothing_in_training,
    words_section_weights,
)
from lmcells.expansion.posterior_ranking import PosteriorRanker, Scorer
from lmcells.expansion.windows import WindowReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_network import NumpyPosterior


class CellRanker(PosteriorRanker):
    """Ranks by -KL(q(z | short form, section, context) || long form); LMC, BSG and MBSGE alike.

    ranker = CellRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: SenseInventory,
        *,
        section_weights: SectionWeights | None = None,
    ) -> None:
        """Without weights a long form's sections are the mean of its words', smoothed as in training."""
        reader = WindowReader(model.word_ids, radius=model.sizes.window, stop_words=model.reads_stop_words)
        super().__init__(model, inventory, reader=reader)
        self._section_weights = section_weights or words_section_weights(
            model, add=smoothing_in_training(model)
        )
        self._moments: dict[str, LongFormMoments] = {}

    def moments(self, short_form: str) -> LongFormMoments:
        """Return what the prior says of a short form's candidates; computed once."""
        if short_form not in self._moments:
            senses = self.inventory.senses(short_form)
            self._moments[short_form] = long_form_moments(
                senses, self.model, section_weights=self._section_weights
            )
        return self._moments[short_form]

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        mean, log_variance = posterior.mean.astype(np.float64), posterior.log_variance.astype(np.float64)
        return lambda short_form, rows: -self.moments(short_form).divergences(mean[rows], log_variance[rows])
