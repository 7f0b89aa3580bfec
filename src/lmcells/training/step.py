"""What one step of a cell model computes from one shard's sample, and the step as a CUDA graph."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lmcells.model import Batch, CellModel, LatentMeaningCells, SectionDraws
from lmcells.training.contrastive import contrastive_loss, phrase_loss
from lmcells.training.kernels import CapturedStep, kernels_available
from lmcells.training.sampler import Centers
from lmcells.training.settings import TrainingSettings
from lmcells.training.spans import MaskedSpans

if TYPE_CHECKING:
    from lmcells.training.kernels.loss import FusedLoss

_N_PLAIN = 3  # the first steps compile kernels and create the optimizer's state, which a graph cannot hold


class StepLoss(nn.Module):
    """A model's losses on a sample, as one call that a compiler or DistributedDataParallel can wrap."""

    def __init__(
        self, model: CellModel, *, settings: TrainingSettings, fused: "FusedLoss | None" = None
    ) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.fused = fused  # not a module: its parameters are the model's

    def forward(
        self, batch: Batch, draws: SectionDraws, present: Tensor, spans: MaskedSpans | None
    ) -> Tensor:
        """Reconstruction and prior divergence, summed over the present rows, and the contrastive loss: -> (3,).

        `present` (B,) is False in the rows that fill up the last batch.
        """
        loss = (self.fused or self.model.loss)(batch, draws)
        reconstruction = torch.where(present, loss.reconstruction, 0.0).sum()
        prior_divergence = torch.where(present, loss.prior_divergence, 0.0).sum()
        contrastive = torch.zeros_like(reconstruction) if spans is None else self._contrastive(spans)
        return torch.stack([reconstruction, prior_divergence, contrastive])

    def _contrastive(self, spans: MaskedSpans) -> Tensor:
        settings, temperature = self.settings, self.settings.contrastive_temperature
        posterior = (
            self.fused.posterior(spans.windows) if self.fused else self.model.posterior(spans.windows).cell
        )
        means = posterior.mean  # (2n, d)
        contrastive = settings.contrastive_weight * contrastive_loss(means, temperature=temperature)
        if settings.phrase_weight > 0:
            phrases = self.model.phrase_means(spans.words, spans.words_mask)  # (n, d)
            misfit = phrase_loss(means, phrases, temperature=temperature)
            contrastive = contrastive + settings.phrase_weight * misfit
        return contrastive


def fused_loss(model: CellModel, device: torch.device) -> "FusedLoss | None":
    """The model's loss in kernels of our own, where there are any for it and the device."""
    if not isinstance(model, LatentMeaningCells) or not kernels_available(device):
        return None
    from lmcells.training.kernels.loss import FusedLoss

    return FusedLoss(model) if FusedLoss.fits(model) else None


class StepGraph:
    """Takes steps by replaying a CUDA graph: otherwise launching hundreds of kernels takes most of a step.

    Each chunk of the corpus, having tensors of its own, has its own graph.
    """

    def __init__(
        self, descend: Callable[[list[Centers]], None], *, generators: Iterable[torch.Generator]
    ) -> None:
        self._descend = descend
        self._generators = list(generators)
        self._n_plain = _N_PLAIN
        self._fixed: Centers | None = None
        self._captured: CapturedStep | None = None

    def step(self, centers: Centers) -> None:
        """Take one step at the given centers."""
        if self._n_plain:
            self._n_plain -= 1
            self._step_aside(centers)
            return
        if self._fixed is None or self._captured is None or self._fixed.source is not centers.source:
            fixed = Centers(centers.source, centers.positions.clone(), centers.present.clone())
            self._fixed, self._captured = fixed, None  # the previous graph gives back its memory first
            self._captured = CapturedStep(
                lambda: self._descend([fixed]), generators=self._generators, n_warm_up=0
            )
        self._fixed.positions.copy_(centers.positions)
        self._fixed.present.copy_(centers.present)
        self._captured()

    def _step_aside(self, centers: Centers) -> None:
        """Step on another stream than the default one, which a graph that is captured later must not depend on."""
        before, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(before)
        with torch.cuda.stream(aside):
            self._descend([centers])
        before.wait_stream(aside)
