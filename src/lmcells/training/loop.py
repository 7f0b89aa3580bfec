"""The loop: draw, descend, report, save, until all epochs are done or somebody asks to stop."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.model import CellModel, ModelConfig, create_model
from lmcells.training.agreement import paired_windows
from lmcells.training.checkpoint import Checkpoint, has_checkpoints, load_newest
from lmcells.training.chunks import divide
from lmcells.training.device_corpus import DeviceTables
from lmcells.training.distributed import World, joined
from lmcells.training.failures import TrainingDiverged, TrainingStopped
from lmcells.training.interruption import StopRequest
from lmcells.training.metrics import MetricsLog
from lmcells.training.optimizer import (
    clip_gradients,
    create_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from lmcells.training.progress import Progress, peak_memory
from lmcells.training.run_identity import require_same_run, run_identity
from lmcells.training.sampler import Sampler
from lmcells.training.seeds import DRAWS, DROPOUT, INITIALISATION, derived_seed, generator_for
from lmcells.training.settings import TrainingSettings
from lmcells.training.shard_reader import Centers, ShardReader
from lmcells.training.step import StepLoss, StepSample

Evaluation = Callable[
    [CellModel, float], Mapping[str, Any]
]  # the model and the hours it was trained -> scores


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A trained model, in evaluation mode, and how it came about."""

    model: CellModel
    n_steps: int
    n_centers: int
    seconds: float
    made_with: dict[str, Any]
    last: Progress | None  # None where there was nothing left to do


def train(
    corpus: Corpus,
    *,
    model_config: ModelConfig,
    settings: TrainingSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    evaluate: Evaluation | None = None,
) -> TrainingResult:
    """Train a model on a corpus; checkpoints and metrics.jsonl are written to `output`.

    With `resume` a run goes on from its newest whole checkpoint, or starts if there is none; on the CPU it then
    ends with the same numbers, bit for bit, as if it had never stopped. SIGTERM and SIGINT write a checkpoint and
    raise TrainingStopped. `evaluate` is called while training, on the main process; what it returns is logged.
    The global random state is left as it was.
    """
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if not resume and has_checkpoints(output):
        raise ConfigError(f"{output} holds a run already. Go on with --resume, or write to another folder.")
    with joined(device) as world, _own_randomness(world.device), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = _Run(corpus, config=model_config, settings=settings, world=world, output=output)
        if resume:
            run.restore()
        return run.go(stop, on_progress=on_progress, evaluate=evaluate)


class _Run:
    """The state of one training run in one process."""

    def __init__(
        self, corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, world: World, output: Path
    ) -> None:
        self.settings, self.world, self.output = settings, world, output
        device = world.device
        self.n_shards = _number_of_shards(settings, world)
        self.identity = run_identity(
            corpus, config=config, settings=settings, n_shards=self.n_shards, device=device
        )
        self.autocast = _uses_bf16(settings, device)

        torch.manual_seed(derived_seed(settings.seed, INITIALISATION))
        self.model = create_model(config).to(device)
        torch.manual_seed(derived_seed(settings.seed, DROPOUT, world.rank))
        self.optimizer = create_optimizer(self.model, learning_rate=settings.learning_rate)
        loss: nn.Module = StepLoss(self.model, temperature=settings.agreement_temperature)
        if settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda"):
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
        self.clock = _Clock()
        self.totals = _Totals(device)

    def go(
        self,
        stop: StopRequest,
        *,
        on_progress: Callable[[Progress], None] | None,
        evaluate: Evaluation | None,
    ) -> TrainingResult:
        """Train until the last epoch is done."""
        self.model.train()
        self.clock.start()
        last, saved_at, evaluated_at = None, self.clock.seconds, self.clock.seconds
        log = MetricsLog(self.output, from_step=self.step) if self.world.is_main else nullcontext()
        with log as metrics:
            while self.epoch < self.settings.epochs:
                for _ in self._steps_of_epoch():
                    finished = self.step_in_epoch == 0
                    stopping, saving, evaluating = self._agree(
                        stop.received is not None,
                        _is_due(self.settings.checkpoint_minutes, saved_at, self.clock.seconds),
                        evaluate is not None
                        and _is_due(self.settings.evaluate_minutes, evaluated_at, self.clock.seconds),
                    )
                    saving = saving or stopping or finished
                    evaluating = evaluate is not None and (evaluating or finished)
                    if saving or evaluating or self.step % self.settings.report_steps == 0:
                        last = self._report()
                        if metrics is not None:
                            metrics.write(last.to_metrics())
                        if on_progress is not None and self.world.is_main:
                            on_progress(last)
                    if evaluating and evaluate is not None and metrics is not None:
                        metrics.write(self._evaluate(evaluate))
                    if evaluating:
                        evaluated_at = self.clock.seconds
                    if saving:
                        self._save()
                        saved_at = self.clock.seconds
                    if stopping:
                        name = stop.received.name if stop.received else "a signal to another process"
                        raise TrainingStopped(
                            f"stopped by {name} at step {self.step:,}; go on with --resume and the same settings."
                        )
        self.model.eval()
        return TrainingResult(
            self.model, self.step, self.centers, self.clock.seconds, made_with=self.identity, last=last
        )

    def _steps_of_epoch(self) -> Iterator[None]:
        """Train one step at a time from where the epoch stands to its end; the position is that after the step."""
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
        settings, world = self.settings, self.world
        self.optimizer.zero_grad(set_to_none=True)
        for turn, (sampler, of_shard) in enumerate(zip(self.samplers, centers, strict=True)):
            sample = self._sample(sampler, of_shard)
            with self._gradient_exchange(last=turn + 1 == len(centers)):
                with torch.autocast(world.device.type, torch.bfloat16, enabled=self.autocast):
                    parts: Tensor = self.loss(sample)  # (3,)
                # Processes' gradients are averaged, so each counts its share `world.size` times.
                of_rows = parts[:2].sum() * (world.size / n_rows)
                of_pairs = parts[2] * (settings.agreement_weight * world.size / self.n_shards)
                (of_rows + of_pairs).backward()  # type: ignore[no-untyped-call]
            self.totals.add(parts.detach())
        norm = clip_gradients(self.model.parameters(), max_norm=settings.gradient_clip)
        self.totals.end_step(norm, n_rows=n_rows)
        self.optimizer.step()

    def _sample(self, sampler: Sampler, centers: Centers) -> StepSample:
        chunk, word_places = centers.source.chunk, centers.source.word_places
        batch = sampler.batch(chunk, centers.places, present=centers.present)
        pairs = None
        if word_places is not None and word_places.counts.shape[0] > 1:
            n_words = max(2, self.settings.n_agreement_words // self.n_shards)
            pairs = paired_windows(sampler, chunk, word_places.draw_pairs(n_words, sampler.generator))
        return StepSample(batch, sampler.section_draws(batch), centers.present, pairs)

    def _gradient_exchange(self, *, last: bool) -> AbstractContextManager[None]:
        """Exchange gradients only with a step's last shard; the others' add up in place."""
        if last or not isinstance(self.loss, DistributedDataParallel):
            return nullcontext()
        without: AbstractContextManager[None] = self.loss.no_sync()
        return without

    def _agree(self, *wishes: bool) -> tuple[bool, ...]:
        """What any process wants, all do. On GPUs they ask each other only when they report: it takes a wait."""
        if self.world.size == 1:
            return wishes
        if self.world.device.type == "cuda" and self.step % self.settings.report_steps and self.step_in_epoch:
            return tuple(False for _ in wishes)
        return tuple(self.world.largest(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())

    def _report(self) -> Progress:
        """Read the losses from the device, and see that they are numbers."""
        means = self.totals.read(self.world, n_shards=self.n_shards)
        seconds, passed = self.clock.lap()
        if not all(math.isfinite(value) for value in (means.reconstruction, means.prior_divergence)) or not (
            math.isfinite(means.agreement) and math.isfinite(means.gradient_norm)
        ):
            raise TrainingDiverged(
                f"the loss is no longer finite after step {self.step:,} (reconstruction {means.reconstruction:g}, "
                f"prior divergence {means.prior_divergence:g}, agreement {means.agreement:g}, gradient norm "
                f"{means.gradient_norm:g}). Lower training.learning_rate or set training.gradient_clip; the last "
                "checkpoint is from before."
            )
        per_second = means.n_rows / max(passed, 1e-9)
        left = self.settings.epochs * self.centers_per_epoch - self.centers
        return Progress(
            step=self.step,
            n_steps=self.settings.epochs * self.steps_per_epoch,
            epoch=self.epoch + 1 if self.step_in_epoch else self.epoch,
            n_epochs=self.settings.epochs,
            centers=self.centers,
            centers_per_second=per_second,
            reconstruction=means.reconstruction,
            prior_divergence=means.prior_divergence,
            agreement=means.agreement if self.settings.agreement_weight else None,
            gradient_norm=means.gradient_norm,
            seconds=seconds,
            seconds_left=left / per_second,
            peak_memory=peak_memory(self.world.device),
        )

    def _evaluate(self, evaluate: Evaluation) -> dict[str, Any]:
        """Ask the hook; neither its time nor its randomness is part of the run."""
        hours = self.clock.seconds / 3600
        self.model.eval()
        with self.clock.paused(), _own_randomness(self.world.device), torch.no_grad():
            scores = dict(evaluate(self.model, hours))
        self.model.train()
        return {"step": self.step, "hours": hours, "evaluation": scores}

    def _save(self) -> None:
        """Write a checkpoint; every process gives its random states, the main one writes."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        moments = optimizer_tensors(self.model, self.optimizer)
        tensors |= {f"optimizer.{name}": value for name, value in moments.items()}
        states = torch.stack([sampler.generator.get_state() for sampler in self.samplers])
        for rank, of_rank in enumerate(self.world.gathered(states)):
            for turn, state in enumerate(of_rank):
                tensors[f"draws.{rank + turn * self.world.size}"] = state
        for name, state in _dropout_states(self.world.device).items():
            for rank, of_rank in enumerate(self.world.gathered(state)):
                tensors[f"{name}.{rank}"] = of_rank
        if self.world.is_main:
            Checkpoint(
                step=self.step,
                epoch=self.epoch,
                step_in_epoch=self.step_in_epoch,
                centers=self.centers,
                seconds=self.clock.seconds,
                made_with=self.identity,
                tensors={name: value.cpu().numpy() for name, value in tensors.items()},
            ).save(self.output)
        self.world.wait()

    def restore(self) -> None:
        """Go back to the newest whole checkpoint, if there is one."""
        found = load_newest(self.output)
        if found is None:
            return
        require_same_run(found.made_with, self.identity, output=self.output)
        tensors = {name: torch.from_numpy(value) for name, value in found.tensors.items()}
        self.model.load_state_dict(_under("model.", tensors))
        restore_optimizer(self.model, self.optimizer, _under("optimizer.", tensors))
        for reader, sampler in zip(self.readers, self.samplers, strict=True):
            sampler.generator.set_state(tensors[f"draws.{reader.shard}"])
        _restore_dropout(self.world, tensors)
        self.step, self.epoch, self.step_in_epoch = found.step, found.epoch, found.step_in_epoch
        self.centers = found.centers
        self.clock = _Clock(found.seconds)


@dataclass(frozen=True, slots=True)
class _Means:
    reconstruction: float
    prior_divergence: float
    agreement: float
    gradient_norm: float
    n_rows: int


class _Totals:
    """Losses summed on the device, so that no step waits for them to be read."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)
        self._n_steps, self._n_rows = 0, 0

    def add(self, parts: Tensor) -> None:
        self._sums[:3] += parts

    def end_step(self, norm: Tensor, *, n_rows: int) -> None:
        self._sums[3] += norm
        self._n_steps += 1
        self._n_rows += n_rows

    def read(self, world: World, *, n_shards: int) -> _Means:
        """Means since the last reading: over the rows, the shards and the steps of all processes."""
        sums = world.add_up(self._sums).tolist()
        n_rows, n_steps = max(self._n_rows, 1), max(self._n_steps, 1)
        means = _Means(
            reconstruction=sums[0] / n_rows,
            prior_divergence=sums[1] / n_rows,
            agreement=sums[2] / (n_steps * n_shards),
            gradient_norm=sums[3] / (n_steps * world.size),
            n_rows=self._n_rows,
        )
        self._sums.zero_()
        self._n_steps, self._n_rows = 0, 0
        return means


class _Clock:
    """Seconds of training, over all resumptions, without pauses."""

    def __init__(self, seconds_before: float = 0.0) -> None:
        self._before, self._started, self._last_lap = seconds_before, time.monotonic(), seconds_before

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    def lap(self) -> tuple[float, float]:
        """Seconds of training in all, and since the last lap."""
        seconds, last = self.seconds, self._last_lap
        self._last_lap = seconds
        return seconds, seconds - last

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


def _number_of_shards(settings: TrainingSettings, world: World) -> int:
    n_shards = settings.shards or world.size
    if n_shards % world.size:
        raise ConfigError(f"shards is {n_shards}; allowed with {world.size} processes: a multiple of that.")
    if settings.batch_size % n_shards:
        raise ConfigError(
            f"batch_size is {settings.batch_size}; allowed with {n_shards} shards: a multiple of that."
        )
    return n_shards


def _uses_bf16(settings: TrainingSettings, device: torch.device) -> bool:
    if settings.precision == "bf16" and device.type == "cpu":
        raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
    return settings.precision == "bf16" or (settings.precision == "auto" and device.type == "cuda")


def _is_due(minutes: float, last: float, now: float) -> bool:
    return minutes > 0 and now - last >= 60 * minutes


def _own_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Put torch's global random states back at the end."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def _dropout_states(device: torch.device) -> dict[str, Tensor]:
    states = {"dropout": torch.get_rng_state()}
    if device.type == "cuda":
        states["dropout_cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_dropout(world: World, tensors: Mapping[str, Tensor]) -> None:
    """Put back this process' states; one that was not there before goes on with those it was born with."""
    if (state := tensors.get(f"dropout.{world.rank}")) is not None:
        torch.set_rng_state(state)
    if (state := tensors.get(f"dropout_cuda.{world.rank}")) is not None:
        torch.cuda.set_rng_state(state, world.device)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
