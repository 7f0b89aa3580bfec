"""What one step computes from one shard's sample, before gradients are taken."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from lmcells.errors import ConfigError
from lmcells.model import Batch, CellModel, Gaussian, LatentMeaningCells, SectionDraws, Windows
from lmcells.training.contrastive import MaskedSpans, contrastive_loss, phrase_loss
from lmcells.training.distributed import World
from lmcells.training.kernels import CapturedStep, kernels_available
from lmcells.training.sampler import Centers
from lmcells.training.settings import TrainingSettings

if TYPE_CHECKING:
    from lmcells.training.kernels.loss import FusedLoss


# Which numbers a run computes with.


def uses_bf16(precision: str, device: torch.device) -> bool:
    """Whether networks run in bf16: where it is asked for, and by default on CUDA; never on the CPU."""
    if precision == "bf16" and device.type == "cpu":
        raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
    return precision == "bf16" or (precision == "auto" and device.type == "cuda")


# Adam, its state as plain tensors, and gradients that are measured and clipped.


STATE = ("step", "exp_avg", "exp_avg_sq")


def create_optimizer(model: nn.Module, *, learning_rate: float) -> torch.optim.Adam:
    """Adam in one fused pass over all parameters, in a form that a CUDA graph can hold."""
    parameters = list(model.parameters())
    device = parameters[0].device
    rate = torch.tensor(learning_rate, device=device)
    return torch.optim.Adam(parameters, lr=rate, fused=True, capturable=device.type == "cuda")


def set_learning_rate(optimizer: torch.optim.Adam, learning_rate: float) -> None:
    """Change the rate of the steps to come, those of a captured graph too."""
    optimizer.param_groups[0]["lr"].fill_(learning_rate)


def clip_gradients(parameters: Iterable[nn.Parameter], *, max_norm: float) -> Tensor:
    """Scale all gradients down to a joint norm of at most `max_norm`, unless it is 0; return the norm before.

    It never waits for the device.
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if max_norm > 0:
        clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Step and moments of each parameter, by name: `exp_avg.prior.hidden.weight`."""
    return {
        f"{entry}.{name}": optimizer.state[parameter][entry]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for entry in STATE
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Adam, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned."""
    for name, parameter in model.named_parameters():
        if f"step.{name}" in tensors:
            optimizer.state[parameter] = {
                entry: tensors[f"{entry}.{name}"].to(parameter.device, copy=True) for entry in STATE
            }


# Losses and gradient norms between two reports.


@dataclass(frozen=True, slots=True)
class Means:
    """What a report says of the steps since the one before it."""

    reconstruction: float  # a center
    prior_divergence: float  # a center
    contrastive: float  # a shard and step
    gradient_norm: float  # a step, before clipping
    n_rows: int


class Sums(NamedTuple):
    """What was added up since the last reading, over all processes."""

    parts: list[float]
    gradient_norm: float  # the mean over steps
    n_rows: int
    n_steps: int


class Totals:
    """Losses summed on the device, so that no step waits for them to be read."""

    def __init__(self, device: torch.device, *, n_parts: int = 3) -> None:
        self._sums = torch.zeros(n_parts + 1, dtype=torch.float64, device=device)  # the norm comes last
        self._n_steps, self._n_rows = 0, 0

    def add(self, parts: Tensor) -> None:
        """Add the parts of one shard's loss, such as reconstruction, prior divergence and contrastive: (n_parts,)."""
        self._sums[:-1] += parts

    def add_norm(self, norm: Tensor) -> None:
        """Add a step's gradient norm: a scalar."""
        self._sums[-1] += norm

    def count_step(self, *, n_rows: int) -> None:
        """Count a step of so many rows."""
        self._n_steps += 1
        self._n_rows += n_rows

    def read_sums(self, world: World) -> Sums:
        """Sums since the last reading; waits for the device."""
        *parts, norm = world.add_up(self._sums).tolist()
        sums = Sums(parts, norm / (max(self._n_steps, 1) * world.size), self._n_rows, self._n_steps)
        self._sums.zero_()
        self._n_steps, self._n_rows = 0, 0
        return sums

    def read(self, world: World, *, n_shards: int) -> Means:
        """Means of a cell model since the last reading: over the rows, the shards and the steps of all processes."""
        sums = self.read_sums(world)
        reconstruction, prior_divergence, contrastive = sums.parts
        n_rows = max(sums.n_rows, 1)
        return Means(
            reconstruction=reconstruction / n_rows,
            prior_divergence=prior_divergence / n_rows,
            contrastive=contrastive / (max(sums.n_steps, 1) * n_shards),
            gradient_norm=sums.gradient_norm,
            n_rows=sums.n_rows,
        )


# What one step computes from one shard's sample, before gradients are taken.


@dataclass(frozen=True, slots=True)
class StepSample:
    """All that is drawn for one shard in one step."""

    batch: Batch
    draws: SectionDraws
    present: Tensor  # (B,) bool, False in the rows that fill up the last batch
    masked_spans: MaskedSpans | None  # of the contrastive term


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
        """Reconstruction and prior divergence, summed over the present rows, and the weighted contrastive: -> (3,)."""
        loss = (self.fused or self.model.loss)(sample.batch, sample.draws)
        reconstruction = torch.where(sample.present, loss.reconstruction, 0.0).sum()
        prior_divergence = torch.where(sample.present, loss.prior_divergence, 0.0).sum()
        contrastive = (
            torch.zeros_like(reconstruction)
            if sample.masked_spans is None
            else self._contrastive(sample.masked_spans)
        )
        return torch.stack([reconstruction, prior_divergence, contrastive])

    def _contrastive(self, masked_spans: MaskedSpans) -> Tensor:
        settings, temperature = self.settings, self.settings.contrastive_temperature
        posterior = self.fused.posterior if self.fused else self._posterior
        means = posterior(masked_spans.windows).mean  # (2n, d)
        contrastive = settings.contrastive_weight * contrastive_loss(means, temperature=temperature)
        if settings.phrase_weight > 0:
            phrases = self.model.phrase_means(masked_spans.words, masked_spans.words_mask)  # (n, d)
            contrastive = contrastive + settings.phrase_weight * phrase_loss(
                means, phrases, temperature=temperature
            )
        return contrastive

    def _posterior(self, windows: Windows) -> Gaussian:
        return self.model.posterior(windows).cell


def fused_loss(model: CellModel, device: torch.device) -> "FusedLoss | None":
    """The model's loss in kernels of our own, where there are any for it and the device."""
    if not isinstance(model, LatentMeaningCells) or not kernels_available(device):
        return None
    from lmcells.training.kernels.loss import FusedLoss

    return FusedLoss(model) if FusedLoss.fits(model) else None


# The steps of a run on a GPU as one CUDA graph: without it, launching hundreds of kernels takes most of a step.


_N_PLAIN = 3  # the first steps compile kernels and create the optimiser's state, which a graph cannot hold


class StepGraph:
    """Takes steps by replaying a graph; each chunk of the corpus, having tensors of its own, has its own graph."""

    def __init__(
        self, move: Callable[[list[Centers]], None], *, generators: Iterable[torch.Generator]
    ) -> None:
        self._move = move
        self._generators = list(generators)
        self._n_plain = _N_PLAIN
        self._fixed: Centers | None = None
        self._captured: CapturedStep | None = None

    def step(self, centers: Centers) -> None:
        """Take one step at the given centers."""
        if self._n_plain:
            self._n_plain -= 1
            with _aside():
                self._move([centers])
            return
        if self._fixed is None or self._fixed.source is not centers.source:
            self._capture(centers)
        assert self._fixed is not None
        assert self._captured is not None
        self._fixed.places.copy_(centers.places)
        self._fixed.present.copy_(centers.present)
        self._captured()

    def _capture(self, centers: Centers) -> None:
        fixed = Centers(centers.source, centers.places.clone(), centers.present.clone(), centers.n_present)
        self._fixed, self._captured = fixed, None  # the graph before it gives back its memory first
        self._captured = CapturedStep(lambda: self._move([fixed]), generators=self._generators, n_warm_up=0)


@contextmanager
def _aside() -> Iterator[None]:
    """Work on another stream than the default one, which a graph that is captured later must not depend on."""
    before, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(before)
    with torch.cuda.stream(aside):
        yield
    before.wait_stream(aside)
