"""Train a cell model: read and sample this process' shards of the corpus, and compute the loss of a step."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.model import Batch, CellModel, LatentMeaningCells, ModelConfig, SectionDraws, create_model
from lmcells.training.device_corpus import divide
from lmcells.training.distributed import DRAWS, DROPOUT, INITIALISATION, World, derived_seed, generator_for
from lmcells.training.kernels import CapturedStep, kernels_available, run_aside
from lmcells.training.loop import run_task
from lmcells.training.metrics import Progress
from lmcells.training.sampler import Centers, Sampler, ShardReader
from lmcells.training.settings import TrainingSettings
from lmcells.training.spans import MaskedSpans, Spans, add_noise, contrastive_loss, phrase_loss
from lmcells.training.task import Adam, Task

if TYPE_CHECKING:
    from lmcells.training.kernels.adam import TableAdam
    from lmcells.training.kernels.loss import FusedLoss
    from lmcells.training.kernels.windows import TimeMajor

# The first steps compile kernels and create the optimizer's state, which cannot be captured in a CUDA graph.
_N_PLAIN = 3
Step = tuple[
    list[Centers], int
]  # the centers of each shard of this process; the number of rows of all processes


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
        self,
        batch: "Batch | TimeMajor",
        draws: SectionDraws,
        present: Tensor | None,
        spans: MaskedSpans | None,
    ) -> Tensor:
        """Reconstruction and prior divergence, summed over the present rows, and the contrastive loss: -> (3,).

        `present` (B,) is False in the rows that pad the last batch; None where the loss leaves them out itself.
        """
        loss = (self.fused or self.model.loss)(batch, draws)  # type: ignore[arg-type]
        reconstruction, prior_divergence = (
            (part if present is None else torch.where(present, part, 0.0)).sum()
            for part in (loss.reconstruction, loss.prior_divergence)
        )
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
    """The model's loss in Triton kernels, if there are any for this model and device."""
    if not isinstance(model, LatentMeaningCells) or not kernels_available(device):
        return None
    from lmcells.training.kernels.loss import FusedLoss

    return FusedLoss(model) if FusedLoss.fits(model) else None


def table_adam(fused: "FusedLoss", optimizer: Adam) -> "TableAdam":
    """Adam of the large parameters, for steps that read the tables of words only at the words of one draw."""
    from lmcells.training.kernels.adam import TableAdam

    of_words = ("variational.context.words.weight", "prior.words.weight")
    lstm = ("variational.context.lstm.input", "variational.context.lstm.hidden")
    others = (*lstm, "variational.metadata.weight", "prior.metadata.weight")
    parameters = dict(fused.model.named_parameters())
    return TableAdam(optimizer, *([parameters[name] for name in names] for names in (of_words, others)))


class CellTask(Task[CellModel, Step]):
    """Trains a cell model; each process reads its own shards of the corpus."""

    unit = "centers"
    loss_names = ("reconstruction", "prior_divergence", "contrastive")
    saves_at_checks = True
    settings: TrainingSettings

    def __init__(
        self,
        corpus: Corpus,
        *,
        config: ModelConfig,
        settings: TrainingSettings,
        world: World,
        initial: Mapping[str, Tensor] | None = None,
    ) -> None:
        """`initial` are weights to start from, instead of random ones."""
        device = world.device
        self.n_shards = n_shards = settings.shards or world.size
        if n_shards % world.size:
            raise ConfigError(
                f"shards is {n_shards}; allowed with {world.size} processes: a multiple of {world.size}."
            )
        if settings.batch_size % n_shards:
            raise ConfigError(
                f"batch_size is {settings.batch_size}; allowed with {n_shards} shards: a multiple of {n_shards}."
            )
        torch.manual_seed(derived_seed(settings.seed, INITIALISATION))
        model = create_model(config)
        if initial is not None:
            model.load_state_dict(initial)
        model = model.to(device)
        torch.manual_seed(derived_seed(settings.seed, DROPOUT, world.rank))
        # A decaying learning rate depends on the number of epochs.
        epochs = {"epochs": settings.epochs} if settings.final_learning_rate < 1 else {}
        identity = {"model": asdict(config), "training": {**epochs, "shards": self.n_shards}}
        if initial is not None:
            identity["start"] = {"sum": sum(float(tensor.double().sum()) for tensor in initial.values())}
        super().__init__(corpus, model, settings=settings, world=world, identity=identity)

        is_fused = settings.compile == "auto" and self.uses_bf16
        self._fused = fused_loss(model, device) if is_fused else None
        loss: nn.Module = StepLoss(model, settings=settings, fused=self._fused)
        if settings.compile == "on":
            loss = torch.compile(loss, dynamic=False)  # type: ignore[assignment]
        self._loss = DistributedDataParallel(loss) if world.size > 1 else loss
        reads_once = n_shards == 1 and settings.n_contrastive_spans == 0
        self._tables = table_adam(self._fused, self.optimizer) if self._fused and reads_once else None

        shards = divide(corpus, n_shards=n_shards, chunk_tokens=settings.chunk_tokens)
        size = settings.batch_size // n_shards
        mine = range(world.rank, n_shards, world.size)
        self._readers = [
            ShardReader(corpus, shards[each], shard=each, batch_size=size, settings=settings, device=device)
            for each in mine
        ]
        generators = [generator_for(device, settings.seed, DRAWS, shard) for shard in mine]
        sampler = Sampler.of_corpus(corpus, config=config, settings=settings, generator=generators[0])
        self._samplers = [replace(sampler, generator=each) for each in generators]
        n_steps = torch.tensor(max(len(reader.rows_of(0)) for reader in self._readers))
        self.steps_per_epoch = int(world.max(n_steps))
        centers = torch.tensor(sum(sum(reader.lengths) for reader in self._readers))
        self.examples_per_epoch = int(world.sum(centers))
        # Of both losses of a row and of the contrastive loss in this step. Gradients are averaged over processes, so
        # each process multiplies its share by `world.size`.
        self._weights = torch.full((3,), world.size / n_shards, device=device)
        self._weighted_rows = 0  # number of rows that `_weights` are set for
        self._is_captured = device.type == "cuda" and settings.compile == "auto" and n_shards == 1
        self._n_plain = _N_PLAIN
        self._fixed: Centers | None = None  # what the captured step reads
        self._captured: CapturedStep | None = None

    def batches(self) -> Iterator[Step]:
        rows = torch.zeros(self.steps_per_epoch, dtype=torch.int64)
        for reader in self._readers:
            own = torch.from_numpy(reader.rows_of(self.epoch))
            rows[: own.shape[0]] += own
        rows_of_step = self.world.sum(rows).tolist()
        epochs = [reader.epoch(self.epoch, first_step=self.step_in_epoch) for reader in self._readers]
        for n_rows in rows_of_step[self.step_in_epoch :]:
            yield [next(centers) for centers in epochs], n_rows

    def train_on(self, batch: Step) -> int:
        """Take one step of Adam on the mean loss over the rows of all shards and processes."""
        centers, n_rows = batch
        if n_rows != self._weighted_rows:
            self._weighted_rows = n_rows
            self._weights[:2].fill_(self.world.size / n_rows)
        if self._is_captured:
            self._replay(centers[0])
        else:
            self._descend(centers)
        return n_rows

    @property
    def learning_rate(self) -> float:
        settings = self.settings
        done = self.step / (settings.epochs * self.steps_per_epoch)
        return settings.learning_rate * (1 - done * (1 - settings.final_learning_rate))

    def mean_losses(self, sums: list[float], *, n_steps: int, n_examples: int) -> dict[str, float | None]:
        """Reconstruction (the hinge) and KL(q || p) per center; the contrastive loss per shard and step."""
        reconstruction, prior_divergence, contrastive = sums
        is_contrastive = self.settings.n_contrastive_spans > 0
        return {
            "reconstruction": reconstruction / n_examples,
            "prior_divergence": prior_divergence / n_examples,
            "contrastive": contrastive / (n_steps * self.n_shards) if is_contrastive else None,
        }

    def finish(self, last: Progress | None) -> dict[str, Any]:
        return {"centers": self.n_examples, "losses": {} if last is None else last.losses}

    def own_state(self) -> dict[str, Tensor]:
        """The random generators' states of all shards."""
        states = torch.stack([sampler.generator.get_state() for sampler in self._samplers])
        return {
            f"draws.{rank + turn * self.world.size}": state
            for rank, of_rank in enumerate(self.world.gather(states))
            for turn, state in enumerate(of_rank)
        }

    def restore_own_state(self, tensors: Mapping[str, Tensor]) -> None:
        for reader, sampler in zip(self._readers, self._samplers, strict=True):
            sampler.generator.set_state(tensors[f"draws.{reader.shard}"])

    def _descend(self, centers: list[Centers]) -> None:
        """The part of a step that runs on the device, without waiting for it."""
        self.model.zero_grad()
        for turn, (sampler, of_shard) in enumerate(zip(self._samplers, centers, strict=True)):
            sample = self._sample(sampler, of_shard)
            if self._tables is not None:
                self._tables.begin(sample[0].words)  # type: ignore[union-attr]
            # Processes exchange gradients only at a step's last shard; those of the others add up until then.
            is_last = turn + 1 == len(centers)
            alone = isinstance(self._loss, DistributedDataParallel) and not is_last
            with self._loss.no_sync() if alone else nullcontext():  # type: ignore[operator]
                with self.autocast():
                    losses: Tensor = self._loss(*sample)  # (3,)
                losses.backward(self._weights)  # type: ignore[no-untyped-call]
            self.sums[:-1] += losses.detach()
        self.apply_gradients(self._tables)

    def _replay(self, centers: Centers) -> None:
        """`_descend` as a CUDA graph: launching hundreds of kernels would take most of a step.

        Each chunk of the corpus has its own tensors, and so its own graph.
        """
        if self._n_plain:
            self._n_plain -= 1
            run_aside(lambda: self._descend([centers]))
            return
        if self._fixed is None or self._captured is None or self._fixed.source is not centers.source:
            fixed = Centers(centers.source, centers.positions.clone(), centers.present.clone())
            self._fixed, self._captured = fixed, None  # frees the memory of the previous graph first
            generators = [sampler.generator for sampler in self._samplers]
            self._captured = CapturedStep(lambda: self._descend([fixed]), generators=generators, n_warm_up=0)
        self._fixed.positions.copy_(centers.positions)
        self._fixed.present.copy_(centers.present)
        self._captured()

    def _sample(
        self, sampler: Sampler, centers: Centers
    ) -> tuple["Batch | TimeMajor", SectionDraws, Tensor | None, MaskedSpans | None]:
        """Everything drawn for one shard in one step."""
        chunk, spans = centers.source
        if self._fused is not None:
            drawn = self._fused.draw(sampler, chunk, centers.positions, present=centers.present)
            return *drawn, None, self._masked_spans(sampler, spans)
        batch = sampler.batch(chunk, centers.positions, present=centers.present)
        masked = self._masked_spans(sampler, spans)
        return batch, sampler.section_draws(batch), centers.present, masked

    def _masked_spans(self, sampler: Sampler, spans: Spans | None) -> MaskedSpans | None:
        """The masked spans of the contrastive loss, if it is on."""
        if spans is None or spans.n_drawn < 2:
            return None
        settings, config = self.settings, sampler.config
        drawn = spans.draw(max(2, settings.n_contrastive_spans // self.n_shards), sampler.generator)
        return add_noise(
            spans.masked(drawn, config=config, segment_metadata=sampler.segment_metadata),
            mask_id=config.mask_id,
            settings=settings,
            generator=sampler.generator,
        )


train = partial(run_task, CellTask)
"""`train(corpus, model_config=..., settings=..., output=...)`: trains a cell model; see `run_task`."""
