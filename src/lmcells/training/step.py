"""What one step computes from one shard's sample, before gradients are taken."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lmcells.model import Batch, CellModel, SectionDraws, Windows
from lmcells.training.agreement import agreement_loss


@dataclass(frozen=True, slots=True)
class StepSample:
    """All that is drawn for one shard in one step."""

    batch: Batch
    draws: SectionDraws
    present: Tensor  # (B,) bool, False in the rows that fill up the last batch
    pairs: Windows | None  # of the agreement term: 2n rows


class StepLoss(nn.Module):
    """A model's losses on a sample, as one call that a compiler or DistributedDataParallel can wrap."""

    def __init__(self, model: CellModel, *, temperature: float) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature

    def forward(self, sample: StepSample) -> Tensor:
        """Reconstruction and prior divergence, summed over the present rows, and the agreement: -> (3,)."""
        loss = self.model.loss(sample.batch, sample.draws)
        reconstruction = torch.where(sample.present, loss.reconstruction, 0.0).sum()
        prior_divergence = torch.where(sample.present, loss.prior_divergence, 0.0).sum()
        if sample.pairs is None:
            agreement = torch.zeros_like(reconstruction)
        else:
            means = self.model.posterior(sample.pairs).cell.mean  # (2n, d)
            agreement = agreement_loss(means, temperature=self.temperature)
        return torch.stack([reconstruction, prior_divergence, agreement])
