"""The three kinds of model, and the objective that trains them."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.config import ModelConfig, ModelKind
from lmcells.model.gaussian import Gaussian, kl_divergence
from lmcells.model.moments import expected_divergence
from lmcells.model.networks import (
    LOG_VARIANCES,
    ModelNetwork,
    PhraseNetwork,
    Posterior,
    SkipGramNetwork,
    VariationalNetwork,
    WordPrior,
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Both parts of the objective, one value for each center word."""

    reconstruction: Tensor  # (B,) the hinge, summed over the present context words
    prior_divergence: Tensor  # (B,) KL(q || p(z | w, m))

    @property
    def total(self) -> Tensor:
        """The value to minimise: (B,)."""
        return self.reconstruction + self.prior_divergence


class CellModel(nn.Module):
    """A variational network and a prior, trained together. Its only random draws are those of dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.phrases = PhraseNetwork(config) if config.phrase_dim else None
        is_lmc = config.kind == "lmc"
        self.variational = VariationalNetwork(config) if is_lmc else SkipGramNetwork(config)
        self.prior = ModelNetwork(config) if is_lmc else WordPrior(config)
        if config.embedding_std is not None:
            for module in self.modules():
                if isinstance(module, nn.Embedding):
                    nn.init.normal_(module.weight, std=config.embedding_std)
        elif isinstance(self.prior, WordPrior):
            nn.init.uniform_(self.prior.log_variance.weight, *LOG_VARIANCES)  # as in the authors' code

    def phrase_means(self, words: Tensor, mask: Tensor) -> Tensor:
        """Means of phrases in the space of posterior means, from their words alone: (n, L), (n, L) -> (n, d)."""
        if self.phrases is None:
            raise ValueError("the model has no phrase network; allowed: a config with phrase_dim above 0.")
        means: Tensor = self.phrases(self.variational.context.words(words), mask)
        return means

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """The cell of each center in its window. A model without a gate ignores `gate`."""
        posterior: Posterior = self.variational(windows, gate=gate)
        return posterior

    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        """The paper's final objective, bounded by a mean over sampled sections, for each center of the batch.

        sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)) + KL(q || prior), j over the present context words.
        """
        config = self.config
        posterior: Gaussian = self.variational(batch).cell
        prior = self.prior(batch.center, batch.metadata)
        moments = self.prior.moments(draws, variance_floor=config.variance_floor)
        ids = torch.cat([batch.context, batch.negatives], dim=1)  # (B, 4S)
        present = torch.cat([batch.context_mask, batch.context_mask], dim=1)
        rows = draws.rows_of(ids, n_words=config.n_words).masked_fill(~present, 0)
        divergence = expected_divergence(posterior, moments, rows)  # (B, 4S)
        of_context, of_negatives = divergence.chunk(2, dim=1)
        violations = torch.relu(config.margin + of_context - of_negatives)
        reconstruction = violations.masked_fill(~batch.context_mask, 0.0).sum(dim=1)
        return Loss(reconstruction, prior_divergence=kl_divergence(posterior, prior))

    forward = loss  # what torch's wrappers call


class LatentMeaningCells(CellModel):
    """The paper's model, q(z | w, m, c) and p(z | w, m): a context word is a mixture over the sections it occurs in."""

    variational: VariationalNetwork
    prior: ModelNetwork


class BayesianSkipGram(CellModel):
    """q(z | w, c) and p(z | w), in the paper's version. Metadata and gate are ignored."""


class MetadataSkipGramEnsemble(BayesianSkipGram):
    """BSG over joint center ids: words, then categories (`config.category_offset`), then sections.

    In training the sampler draws which of the three is the center of a row. The context is always words.
    """

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """Averages the means and variances of q(. | w, c) and q(. | section, c); the former alone if metadata is null.
        A masked center is masked only in the former.
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

        mean = average(of_word.cell.mean, of_section.cell.mean)
        variance = average(of_word.cell.log_variance.exp(), of_section.cell.log_variance.exp())
        attention = average(of_word.attention, of_section.attention)
        return Posterior(Gaussian(mean, variance.log()), of_word.gate, attention)


CLASS_OF: dict[ModelKind, type[CellModel]] = {
    "lmc": LatentMeaningCells,
    "bsg": BayesianSkipGram,
    "mbsge": MetadataSkipGramEnsemble,
}


def create_model(config: ModelConfig) -> CellModel:
    """A freshly initialised model of `config.kind`, drawn from torch's global generator."""
    return CLASS_OF[config.kind](config)


def count_parameters(module: nn.Module) -> int:
    """Number of parameters outside the embedding tables, as the paper counts."""
    total = sum(parameter.numel() for parameter in module.parameters())
    return total - sum(table.weight.numel() for table in module.modules() if isinstance(table, nn.Embedding))
