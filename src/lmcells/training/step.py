"""What one step computes from one shard's sample, before gradients are taken."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lmcells.model import Batch, CellModel, Gaussian, LatentMeaningCells, SectionDraws, Windows
from lmcells.training.agreement import UnitGaps, agreement_loss, phrase_loss
from lmcells.training.kernels import kernels_available
from lmcells.training.settings import TrainingSettings

if TYPE_CHECKING:
    from lmcells.training.kernels.loss import FusedLoss


@dataclass(frozen=True, slots=True)
class StepSample:
    """All that is drawn for one shard in one step."""

    batch: Batch
    draws: SectionDraws
    present: Tensor  # (B,) bool, False in the rows that fill up the last batch
    gaps: UnitGaps | None  # of the agreement term


class StepLoss(nn.Module):
    """A model's losses on a sample, as one call that a compiler or DistributedDataParallel can wrap."""

    def __init__(
        self, model: CellModel, *, settings: TrainingSettings, fused: "FusedLoss | None" = None
    ) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.fused = fused  # no module: its parameters are the model's

    def forward(self, sample: StepSample) -> Tensor:
        """Reconstruction and prior divergence, summed over the present rows, and the weighted agreement: -> (3,)."""
        loss = (self.fused or self.model.loss)(sample.batch, sample.draws)
        reconstruction = torch.where(sample.present, loss.reconstruction, 0.0).sum()
        prior_divergence = torch.where(sample.present, loss.prior_divergence, 0.0).sum()
        agreement = torch.zeros_like(reconstruction) if sample.gaps is None else self._agreement(sample.gaps)
        return torch.stack([reconstruction, prior_divergence, agreement])

    def _agreement(self, gaps: UnitGaps) -> Tensor:
        settings, temperature = self.settings, self.settings.agreement_temperature
        posterior = self.fused.posterior if self.fused else self._posterior
        means = posterior(gaps.windows).mean  # (2n, d)
        agreement = settings.agreement_weight * agreement_loss(means, temperature=temperature)
        if settings.phrase_weight > 0:
            phrases = self.model.phrase_means(gaps.words, gaps.words_mask)  # (n, d)
            agreement = agreement + settings.phrase_weight * phrase_loss(
                means, phrases, temperature=temperature
            )
        return agreement

    def _posterior(self, windows: Windows) -> Gaussian:
        return self.model.posterior(windows).cell


def fused_loss(model: CellModel, device: torch.device) -> "FusedLoss | None":
    """The model's loss in kernels of our own, where there are any for it and the device."""
    if not isinstance(model, LatentMeaningCells) or not kernels_available(device):
        return None
    from lmcells.training.kernels.loss import FusedLoss

    return FusedLoss(model) if FusedLoss.fits(model) else None
