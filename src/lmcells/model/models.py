"""One class a kind of model."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from lmcells.model.batch import Batch, Dropout, SectionDraws, Windows
from lmcells.model.cell_model import CellModel, Loss, objective
from lmcells.model.config import ModelConfig, ModelKind
from lmcells.model.gaussian import Gaussian, GaussianHeads
from lmcells.model.prior import ModelNetwork, WordPrior
from lmcells.model.variational import ContextEncoder, Posterior, VariationalNetwork, attend

# Latent Meaning Cells: the paper's model.


class LatentMeaningCells(CellModel):
    """q(z | w, m, c) and p(z | w, m); a context word is a mixture over the sections it is found in."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.variational = VariationalNetwork(config)
        self.prior = ModelNetwork(config)
        self.initialise_tables()

    def word_table(self) -> Tensor:
        table: Tensor = self.variational.context.words.weight
        return table

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        posterior: Posterior = self.variational(windows, gate=gate)
        return posterior

    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        return objective(
            self.posterior(batch).cell,
            prior=self.prior(batch.center, batch.metadata),
            moments=self.prior.moments(draws, variance_floor=self.config.variance_floor),
            batch=batch,
            draws=draws,
            config=self.config,
        )


# The Bayesian skip-gram, in the paper's version: the LMC's variational network without metadata.


class SkipGramNetwork(nn.Module):
    """q(z | w, c): the attention's query is learnt, there is no gate, h_joint is h_word."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.context = ContextEncoder(config)
        bound = 1 / math.sqrt(config.metadata_dim)  # as torch draws a linear layer of one output
        self.query = nn.Parameter(torch.empty(config.metadata_dim).uniform_(-bound, bound))
        self.heads = GaussianHeads(config.metadata_dim, cell_dim=config.cell_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, windows: Windows) -> Posterior:
        states, _ = self.context(windows)  # (B, 2S, 2H)
        query = self.query.expand(states.shape[0], -1)  # (2H,) -> (B, 2H)
        attention, summary = attend(query, states, windows.context_mask)  # (B, 2S), (B, 2H)
        no_gate = attention.new_zeros(attention.shape[0])
        return Posterior(self.heads(self.dropout(summary)), no_gate, attention)


class BayesianSkipGram(CellModel):
    """q(z | w, c) and p(z | w). Metadata and gate are ignored where they are given."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.variational = SkipGramNetwork(config)
        self.prior = WordPrior(config)
        self.initialise_tables()

    def word_table(self) -> Tensor:
        table: Tensor = self.variational.context.words.weight
        return table

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:  # noqa: ARG002
        posterior: Posterior = self.variational(windows)
        return posterior

    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        return objective(
            self.variational(batch).cell,
            prior=self.prior(batch.center),
            moments=self.prior.moments(draws, variance_floor=self.config.variance_floor),
            batch=batch,
            draws=draws,
            config=self.config,
        )


# The metadata BSG ensemble: a skip-gram in which note types and sections can stand as the center.


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


# One class a kind of model.


CLASS_OF: dict[ModelKind, type[CellModel]] = {
    "lmc": LatentMeaningCells,
    "bsg": BayesianSkipGram,
    "mbsge": MetadataSkipGramEnsemble,
}


def create_model(config: ModelConfig) -> CellModel:
    """A freshly initialised model of `config.kind`, drawn from torch's global generator."""
    return CLASS_OF[config.kind](config)
