"""Ranking the candidates of a short form in context, as the paper does: by divergence from the long form's prior."""

from collections import defaultdict
from collections.abc import Container, Sequence

import numpy as np

from lmcells.expansion.context import Mention, ReadWindows
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import (
    Floats,
    LongFormMoments,
    SectionWeights,
    long_form_moments,
    words_section_weights,
)
from lmcells.expansion.section_ids import SectionIds
from lmcells.expansion.windows import WindowReader
from lmcells.pretrained import PretrainedModel

_BATCH = 1024


class CellRanker:
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
        self.model = model
        self.inventory = inventory
        self._section_weights = section_weights or words_section_weights(model)
        self._moments: dict[str, LongFormMoments] = {}
        self._sections = SectionIds(model)
        self._read = WindowReader(model.word_ids, radius=model.sizes.window)

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention; -inf where the model knows no word of a long form."""
        scores: list[Floats] = []
        for start in range(0, len(mentions), _BATCH):
            batch = mentions[start : start + _BATCH]
            scores += self.window_scores(self.read(batch), batch)
        return scores

    @property
    def reads(self) -> Container[str]:
        """The words that the model reads around a mention."""
        return self._read.words

    def read(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Return what the model reads of each mention."""
        return self._read(mentions)

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of mentions whose windows are read already."""
        scores: list[Floats] = [np.zeros(0)] * len(mentions)
        mean, log_variance = self._posteriors(windows, mentions)
        for short_form, rows in rows_by_short_form(mentions).items():
            divergences = self.moments(short_form).divergences(mean[rows], log_variance[rows])
            for row, divergence in zip(rows, divergences, strict=True):
                scores[row] = -divergence
        return scores

    def moments(self, short_form: str) -> LongFormMoments:
        """Return what the prior says of a short form's candidates; computed once."""
        if short_form not in self._moments:
            senses = self.inventory.senses(short_form)
            self._moments[short_form] = long_form_moments(
                senses, self.model, section_weights=self._section_weights
            )
        return self._moments[short_form]

    def _posteriors(self, windows: ReadWindows, mentions: Sequence[Mention]) -> tuple[Floats, Floats]:
        posterior = self.model.variational.posterior(
            windows.center,
            np.array([self._sections[mention.section] for mention in mentions], np.int64),
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
        )
        return posterior.mean.astype(np.float64), posterior.log_variance.astype(np.float64)


def rows_by_short_form(mentions: Sequence[Mention]) -> dict[str, list[int]]:
    """Which mentions are of each short form."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, mention in enumerate(mentions):
        rows[mention.short_form].append(row)
    return rows
