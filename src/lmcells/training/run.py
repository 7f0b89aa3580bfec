"""One training run in one process: what it is made of, where it stands, and the steps it takes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.model import ModelConfig, create_model
from lmcells.training.contrastive import masked_span_windows, obscured
from lmcells.training.device_corpus import DeviceTables, divide
from lmcells.training.distributed import DRAWS, DROPOUT, INITIALISATION, World, derived_seed, generator_for
from lmcells.training.progress import Clock
from lmcells.training.sampler import Centers, Sampler, ShardReader
from lmcells.training.settings import MAY_CHANGE, TrainingSettings
from lmcells.training.step import (
    StepGraph,
    StepLoss,
    StepSample,
    Totals,
    clip_gradients,
    create_optimizer,
    fused_loss,
    set_learning_rate,
    uses_bf16,
)

# What must be the same for a run to go on where it stopped.


# Settings that came after runs had been started, with the value that those runs had in effect.
_ADDED_LATER: dict[str, dict[str, Any]] = {
    "model": {"masked_span_reach": 2},
    "training": {"contrastive_reads_all": False},
}


def run_identity(
    corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, n_shards: int, device: torch.device
) -> dict[str, Any]:
    """Model, training, corpus and device as plain data."""
    training = {name: value for name, value in settings.to_dict().items() if name not in MAY_CHANGE}
    if settings.final_learning_rate < 1:
        training["epochs"] = settings.epochs  # the learning rate of every step depends on where the end is
    return {
        "model": asdict(config),
        "training": {**training, "shards": n_shards},
        "corpus": {"fingerprint": corpus.manifest.fingerprint},
        "device": {"type": device.type},
    }


def require_same_run(found: dict[str, Any], wanted: dict[str, Any], *, output: Path) -> None:
    """Refuse to go on with other settings, naming the first that differs."""
    for table, values in wanted.items():
        had = _ADDED_LATER.get(table, {}) | found.get(table, {})
        for name, value in values.items():
            before = had.get(name)
            if before != value:
                raise ConfigError(
                    f"{output} was trained with {table}.{name} = {before!r}, now it is {value!r}. Resume with the "
                    f"same settings (only {', '.join(MAY_CHANGE)} may change), or write to another folder."
                )


# One training run in one process: what it is made of, where it stands, and the steps it takes.


class Run:
    """Model, optimiser, readers and samplers of this process' shards, and the position in the corpus.

    `epoch` and `step_in_epoch` say where the next step begins, from 0; `step` and `centers` what was done.
    """

    def __init__(
        self, corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, world: World, output: Path
    ) -> None:
        self.settings, self.world, self.output = settings, world, output
        device = world.device
        self.n_shards = _number_of_shards(settings, world)
        self.identity = run_identity(
            corpus, config=config, settings=settings, n_shards=self.n_shards, device=device
        )
        self.autocast = uses_bf16(settings.precision, device)

        torch.manual_seed(derived_seed(settings.seed, INITIALISATION))
        self.model = create_model(config).to(device)
        torch.manual_seed(derived_seed(settings.seed, DROPOUT, world.rank))
        self.optimizer = create_optimizer(self.model, learning_rate=settings.learning_rate)
        own_kernels = settings.compile == "auto" and self.autocast
        fused = fused_loss(self.model, device) if own_kernels else None
        loss: nn.Module = StepLoss(self.model, settings=settings, fused=fused)
        if settings.compile == "on":
            loss = torch.compile(loss, dynamic=False)  # type: ignore[assignment]
        self.loss = DistributedDataParallel(loss) if world.size > 1 else loss

        tables = DeviceTables.of_corpus(corpus, config=config, settings=settings, device=device)
        division = divide(corpus, n_shards=self.n_shards, chunk_tokens=settings.chunk_tokens)
        mine = range(world.rank, self.n_shards, world.size)
        self.readers = [
            ShardReader(
                corpus,
                division.shards[shard],
                shard=shard,
                batch_size=settings.batch_size // self.n_shards,
                settings=settings,
                device=device,
            )
            for shard in mine
        ]
        self.samplers = [
            Sampler(tables, config, generator_for(device, settings.seed, DRAWS, shard)) for shard in mine
        ]
        n_steps = torch.tensor(max(len(reader.rows_of(0)) for reader in self.readers))
        self.steps_per_epoch = int(world.largest(n_steps))
        centers = torch.tensor(sum(sum(reader.lengths) for reader in self.readers))
        self.centers_per_epoch = int(world.add_up(centers))

        self.step, self.epoch, self.step_in_epoch, self.centers = 0, 0, 0, 0
        self.clock = Clock()
        self.totals = Totals(device)
        self._weight = torch.ones((), device=device)  # of a row in this step's loss
        self._graph = None
        if device.type == "cuda" and settings.compile == "auto" and len(mine) == world.size == 1:
            self._graph = StepGraph(self._move, generators=[sampler.generator for sampler in self.samplers])

    def steps(self) -> Iterator[None]:
        """Train one step at a time, from where the run stands to the end of the last epoch."""
        while self.epoch < self.settings.epochs:
            yield from self._steps_of_epoch()

    def _steps_of_epoch(self) -> Iterator[None]:
        rows = torch.zeros(self.steps_per_epoch, dtype=torch.int64)
        for reader in self.readers:
            own = torch.from_numpy(reader.rows_of(self.epoch))
            rows[: own.shape[0]] += own
        rows_of_step = self.world.add_up(rows).tolist()
        epochs = [reader.epoch(self.epoch, first_step=self.step_in_epoch) for reader in self.readers]
        for step in range(self.step_in_epoch, self.steps_per_epoch):
            self._descend([next(centers) for centers in epochs], n_rows=rows_of_step[step])
            self.step += 1
            self.centers += rows_of_step[step]
            self.step_in_epoch += 1
            if self.step_in_epoch == self.steps_per_epoch:
                self.epoch, self.step_in_epoch = self.epoch + 1, 0
            yield

    def _descend(self, centers: list[Centers], *, n_rows: int) -> None:
        """One step: the mean loss over the rows of all shards of all processes, and one move of Adam."""
        # Processes' gradients are averaged, so each counts its share `world.size` times.
        self._weight.fill_(self.world.size / n_rows)
        if self.settings.final_learning_rate < 1:
            set_learning_rate(self.optimizer, self._learning_rate())
        if self._graph is None:
            self._move(centers)
        else:
            self._graph.step(centers[0])
        self.totals.count_step(n_rows=n_rows)

    def _learning_rate(self) -> float:
        settings = self.settings
        done = self.step / (settings.epochs * self.steps_per_epoch)
        return settings.learning_rate * (1 - done * (1 - settings.final_learning_rate))

    def _move(self, centers: list[Centers]) -> None:
        """All of a step that happens on the device; it never waits for it."""
        settings, world = self.settings, self.world
        self.optimizer.zero_grad(set_to_none=True)
        for turn, (sampler, of_shard) in enumerate(zip(self.samplers, centers, strict=True)):
            sample = self._sample(sampler, of_shard)
            with self._gradient_exchange(last=turn + 1 == len(centers)):
                with torch.autocast(world.device.type, torch.bfloat16, enabled=self.autocast):
                    parts: Tensor = self.loss(sample)  # (3,)
                of_rows = parts[:2].sum() * self._weight
                of_pairs = parts[2] * (world.size / self.n_shards)
                (of_rows + of_pairs).backward()  # type: ignore[no-untyped-call]
            self.totals.add(parts.detach())
        norm = clip_gradients(self.model.parameters(), max_norm=settings.gradient_clip)
        self.totals.add_norm(norm)
        self.optimizer.step()

    def _sample(self, sampler: Sampler, centers: Centers) -> StepSample:
        settings, source, spans = self.settings, centers.source, centers.source.spans
        batch = sampler.batch(source.chunk, centers.places, present=centers.present)
        masked_spans = None
        if spans is not None and spans.n_drawn > 1:
            drawn = spans.draw(max(2, settings.n_contrastive_spans // self.n_shards), sampler.generator)
            masked_spans = masked_span_windows(
                sampler, source.text, drawn, max_words=settings.contrastive_max_words
            )
            masked_spans = obscured(
                masked_spans,
                sampler,
                mask_rate=settings.contrastive_mask_rate,
                null_rate=settings.contrastive_null_rate,
            )
        return StepSample(batch, sampler.section_draws(batch), centers.present, masked_spans)

    def _gradient_exchange(self, *, last: bool) -> AbstractContextManager[None]:
        """Exchange gradients only with a step's last shard; the others' add up in place."""
        if last or not isinstance(self.loss, DistributedDataParallel):
            return nullcontext()
        without: AbstractContextManager[None] = self.loss.no_sync()
        return without


def _number_of_shards(settings: TrainingSettings, world: World) -> int:
    n_shards = settings.shards or world.size
    if n_shards % world.size:
        raise ConfigError(f"shards is {n_shards}; allowed with {world.size} processes: a multiple of that.")
    if settings.batch_size % n_shards:
        raise ConfigError(
            f"batch_size is {settings.batch_size}; allowed with {n_shards} shards: a multiple of that."
        )
    return n_shards
