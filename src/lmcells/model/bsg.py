"""The Bayesian skip-gram, in the paper's version: the LMC's variational network without metadata."""

import math

import torch
from torch import Tensor, nn

from lmcells.model.attention import attend
from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.cell_model import CellModel
from lmcells.model.config import ModelConfig
from lmcells.model.context import ContextEncoder
from lmcells.model.dropout import Dropout
from lmcells.model.heads import GaussianHeads
from lmcells.model.objective import Loss, objective
from lmcells.model.prior import WordPrior
from lmcells.model.variational import Posterior


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
