"""The objective: the hinge over context words and negatives, and the divergence from the prior."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmcells.model.batch import Batch, SectionDraws
from lmcells.model.config import ModelConfig
from lmcells.model.gaussian import Gaussian, kl_divergence
from lmcells.model.moments import Moments, expected_divergence


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
