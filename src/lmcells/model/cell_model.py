"""What every model of latent meaning cells can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.config import ModelConfig
from lmcells.model.gaussian import Gaussian, kl_divergence
from lmcells.model.moments import Moments, expected_divergence
from lmcells.model.prior import PhraseNetwork
from lmcells.model.variational import Posterior

# The objective: the hinge over context words and negatives, and the divergence from the prior.


@dataclass(frozen=True, slots=True)
class Loss:
    """Both parts of the objective, one value a center word."""

    reconstruction: Tensor  # (B,) the hinge, summed over the present context words
    prior_divergence: Tensor  # (B,) KL(q || p(z | w, m))

    @property
    def total(self) -> Tensor:
        """What is minimised: (B,)."""
        return self.reconstruction + self.prior_divergence


def objective(
    posterior: Gaussian,
    *,
    prior: Gaussian,
    moments: Moments,
    batch: Batch,
    draws: SectionDraws,
    config: ModelConfig,
) -> Loss:
    """The paper's final objective, bounded by a mean over sampled sections.

    sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)) + KL(q || prior), j over the present context words.
    """
    ids = torch.cat([batch.context, batch.negatives], dim=1)  # (B, 4S)
    present = torch.cat([batch.context_mask, batch.context_mask], dim=1)
    rows = draws.rows_of(ids, n_words=config.n_words).masked_fill(~present, 0)
    of_context, of_negatives = expected_divergence(posterior, moments, rows).chunk(2, dim=1)  # (B, 2S) each
    violations = torch.relu(config.margin + of_context - of_negatives).masked_fill(~batch.context_mask, 0.0)
    return Loss(reconstruction=violations.sum(dim=1), prior_divergence=kl_divergence(posterior, prior))


# How large a model is.


def count_parameters(module: nn.Module, *, embeddings: bool = False) -> int:
    """Number of trained values; without `embeddings` only those outside the tables, as the paper counts."""
    total = sum(parameter.numel() for parameter in module.parameters())
    tables = sum(table.weight.numel() for table in module.modules() if isinstance(table, nn.Embedding))
    return total if embeddings else total - tables


# What every model of latent meaning cells can do.


class CellModel(nn.Module, ABC):
    """A variational network and a prior, trained together. It draws nothing itself but dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.phrases = PhraseNetwork(config) if config.phrase_dim else None

    @abstractmethod
    def word_table(self) -> Tensor:
        """E, the vectors in which contexts are read: (n_centers, E)."""

    def phrase_means(self, words: Tensor, mask: Tensor) -> Tensor:
        """Where phrases belong among the posteriors' means, by the words they have: (n, L), (n, L) -> (n, d)."""
        if self.phrases is None:
            raise ValueError("the model has no phrase network; allowed: a config with phrase_dim above 0.")
        means: Tensor = self.phrases(functional.embedding(words, self.word_table()), mask)
        return means

    @abstractmethod
    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """The cell of each center in its window. A model without a gate ignores `gate`."""

    @abstractmethod
    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        """Both parts of the objective for each center of the batch."""

    def forward(self, batch: Batch, draws: SectionDraws) -> Loss:
        """`loss`, under the name that wrappers such as DistributedDataParallel call."""
        return self.loss(batch, draws)

    def initialise_tables(self) -> None:
        """Draw all embeddings anew with `config.embedding_std`, where it is set."""
        if self.config.embedding_std is None:
            return
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.embedding_std)
