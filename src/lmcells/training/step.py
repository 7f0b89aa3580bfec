"""What one step computes from one shard's sample, before gradients are taken."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lmcells.model import Batch, CellModel, Gaussian, LatentMeaningCells, SectionDraws, Windows
from lmcells.training.agreement import agreement_loss
from lmcells.training.kernels import kernels_available

if TYPE_CHECKING:
    from lmcells.training.kernels.loss import FusedLoss


@dataclass(frozen=True, slots=True)
class StepSample:
    """All that is drawn for one shard in one step."""

    batch: Batch
    draws: SectionDraws
    present: Tensor  # (B,) bool, False in the rows that fill up the last batch
    pairs: Windows | None  # of the agreement term: 2n rows


class StepLoss(nn.Module):
    """A model's losses on a sample, as one call that a compiler or DistributedDataParallel can wrap."""

    def __init__(self, model: CellModel, *, temperature: float, fused: "FusedLoss | None" = None) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.fused = fused  # no module: its parameters are the model's

    def forward(self, sample: StepSample) -> Tensor:
        """Reconstruction and prior divergence, summed over the present rows, and the agreement: -> (3,)."""
        loss = (self.fused or self.model.loss)(sample.batch, sample.draws)
        reconstruction = torch.where(sample.present, loss.reconstruction, 0.0).sum()
        prior_divergence = torch.where(sample.present, loss.prior_divergence, 0.0).sum()
        if sample.pairs is None:
            agreement = torch.zeros_like(reconstruction)
        else:
            posterior = self.fused.posterior if self.fused else self._posterior
            agreement = agreement_loss(
                posterior(sample.pairs).mean, temperature=self.temperature
            )  # of (2n, d)
        return torch.stack([reconstruction, prior_divergence, agreement])

    def _posterior(self, windows: Windows) -> Gaussian:
        return self.model.posterior(windows).cell


def fused_loss(model: CellModel, device: torch.device) -> "FusedLoss | None":
    """The model's loss in kernels of our own, where there are any for it and the device."""
    if not isinstance(model, LatentMeaningCells) or not kernels_available(device):
        return None
    from lmcells.training.kernels.loss import FusedLoss

    return FusedLoss(model) if FusedLoss.fits(model) else None
