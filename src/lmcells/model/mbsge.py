"""The metadata BSG ensemble: a skip-gram in which note types and sections can stand as the center."""

from dataclasses import replace

import torch
from torch import Tensor

from lmcells.model.batch import Windows
from lmcells.model.bsg import BayesianSkipGram
from lmcells.model.gaussian import Gaussian
from lmcells.model.variational import Posterior


class MetadataSkipGramEnsemble(BayesianSkipGram):
    """BSG over joint center ids: words, then categories (`config.category_offset`), then sections.

    In training the caller draws which of the three is the center of each row. The context is always words.
    """

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """Means and log-variances of q(. | w, c) and q(. | section, c), averaged; the former alone where
        metadata is null. A masked center is masked in the former only.
        """
        of_word = super().posterior(windows, gate=gate)
        if windows.metadata is None:
            return of_word
        known = windows.metadata >= 0  # (B,)
        section = windows.metadata.clamp_min(0) + self.config.section_offset
        of_section = super().posterior(replace(windows, center=section, center_mask=None), gate=gate)

        def average(word: Tensor, other: Tensor) -> Tensor:
            rows = known.view(-1, *[1] * (word.dim() - 1))
            return torch.where(rows, (word + other) / 2, word)

        cell = Gaussian(
            average(of_word.cell.mean, of_section.cell.mean),
            average(of_word.cell.log_variance, of_section.cell.log_variance),
        )
        return Posterior(cell, of_word.gate, average(of_word.attention, of_section.attention))
