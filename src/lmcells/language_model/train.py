"""Training a language model until its held-out loss is flat."""

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.model import LanguageModel
from lmcells.language_model.objective import (
    Negatives,
    full_losses,
    full_losses_in_parts,
    sampled_losses,
)
from lmcells.language_model.settings import LanguageModelSettings
from lmcells.language_model.windows import Integers, WindowReader, cut_windows
from lmcells.training import TrainingDiverged, TrainingStopped
from lmcells.training.checkpoint import Checkpoint, has_checkpoints, load_newest
from lmcells.training.distributed import choose_device
from lmcells.training.interruption import StopRequest
from lmcells.training.metrics import MetricsLog
from lmcells.training.optimizer import (
    clip_gradients,
    create_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from lmcells.training.progress import peak_memory
from lmcells.training.randomness import own_randomness
from lmcells.training.run_identity import require_same_run
from lmcells.training.seeds import CHUNKS, DRAWS, DROPOUT, INITIALISATION, ORDER, derived_seed, generator_for
from lmcells.training.settings import MAY_CHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelProgress:
    """A report: means since the last one, and where the run stands. Losses are nats a word, of both directions."""

    step: int
    epoch: int  # from 1
    n_epochs: int
    words: int  # so far
    words_per_second: float
    loss: float  # of training
    held_out_loss: float | None  # None where it was not measured with this report
    best_held_out_loss: float | None
    gradient_norm: float
    learning_rate: float
    seconds: float
    peak_memory: int

    def to_metrics(self) -> dict[str, Any]:
        """The line of metrics.jsonl."""
        return {
            name: value for name, value in asdict(self).items() if name != "n_epochs" and value is not None
        }


@dataclass(frozen=True, slots=True)
class LanguageModelResult:
    """The model as it was when its held-out loss was lowest, in evaluation mode, and how it came about."""

    model: LanguageModel
    n_steps: int
    n_words: int
    seconds: float
    held_out_loss: float
    is_flat: bool  # False: it could still improve, but the epochs were over
    made_with: dict[str, Any]
    last: LanguageModelProgress | None  # None where there was nothing left to do


def train_language_model(
    corpus: Corpus,
    *,
    config: LanguageModelConfig,
    settings: LanguageModelSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[LanguageModelProgress], None] | None = None,
) -> LanguageModelResult:
    """Train until the held-out loss is flat or all epochs are done; checkpoints and metrics.jsonl go to `output`.

    With `resume` a run goes on from its newest whole checkpoint, or starts if there is none; on the CPU it then ends
    with the same numbers, bit for bit. SIGTERM and SIGINT write a checkpoint and raise TrainingStopped. The global
    random state is left as it was.
    """
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if config.n_words != len(corpus.words):
        raise ConfigError(f"n_words is {config.n_words:,}; {corpus.folder} has {len(corpus.words):,} words.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a language model is trained by one process. Start it without torchrun.")
    if not resume and has_checkpoints(output):
        raise ConfigError(f"{output} holds a run already. Go on with --resume, or write to another folder.")
    place = choose_device(device)
    with own_randomness(place), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = _Run(corpus, config=config, settings=settings, device=place, output=output)
        if resume:
            run.restore()
        return run.go(stop, on_progress=on_progress)


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        corpus: Corpus,
        *,
        config: LanguageModelConfig,
        settings: LanguageModelSettings,
        device: torch.device,
        output: Path,
    ) -> None:
        self.settings, self.device, self.output = settings, device, output
        self.autocast = _uses_bf16(settings, device)
        training = {name: value for name, value in settings.to_dict().items() if name not in MAY_CHANGE}
        self.identity = {
            "language_model": config.to_dict(),
            "training": training,
            "corpus": {"fingerprint": corpus.manifest.fingerprint},
            "device": {"type": device.type},
        }
        torch.manual_seed(derived_seed(settings.seed, INITIALISATION))
        self.model = LanguageModel(config).to(device)
        self.model.vocabulary.start_from(corpus.word_counts)
        torch.manual_seed(derived_seed(settings.seed, DROPOUT))
        self.optimizer = create_optimizer(self.model, learning_rate=settings.learning_rate)
        self.reader = WindowReader(corpus, max_characters=config.max_characters, device=device)
        self.windows, held_out = cut_windows(
            corpus,
            window=settings.window,
            held_out=settings.held_out,
            seed=derived_seed(settings.seed, CHUNKS),
        )
        self.held_out = held_out.first_words(settings.held_out_words)
        self.steps_per_epoch = len(self.windows.batches(settings.batch_size))  # in whatever order
        self.negatives = None
        if config.n_words > settings.full_softmax:
            self.negatives = Negatives.of_counts(
                corpus.word_counts, exponent=settings.negative_exponent, device=device
            )
        self.draws = generator_for(device, settings.seed, DRAWS)

        self.step, self.epoch, self.step_in_epoch, self.words = 0, 0, 0, 0
        self.seconds_before, self.started = 0.0, time.monotonic()
        self.best_loss, self.n_stale = math.inf, 0
        self.best: dict[str, Tensor] = {}
        self.sums = torch.zeros(
            2, dtype=torch.float64, device=device
        )  # loss and gradient norm since a report
        self.reported = (0, 0, 0.0)  # step, words, seconds

    @property
    def seconds(self) -> float:
        """Of training, over all resumptions."""
        return self.seconds_before + time.monotonic() - self.started

    @property
    def is_flat(self) -> bool:
        """Whether the held-out loss has not improved for as long as patience allows."""
        return self.n_stale >= self.settings.patience

    def go(
        self, stop: StopRequest, *, on_progress: Callable[[LanguageModelProgress], None] | None
    ) -> LanguageModelResult:
        """Train to the end."""
        settings = self.settings
        self.model.train()
        self.started = time.monotonic()
        self.reported = (self.step, self.words, self.seconds)
        saved_at, last = self.seconds, None
        with MetricsLog(self.output, from_step=self.step) as metrics:
            while self.epoch < settings.epochs and not self.is_flat:
                for rows in self._batches_left():
                    self._descend(rows)
                    measuring = self.step_in_epoch == 0 or _is_multiple(self.step, settings.evaluate_steps)
                    stopping = stop.received is not None
                    is_due = 0 < 60 * settings.checkpoint_minutes <= self.seconds - saved_at
                    saving = measuring or stopping or is_due
                    if saving or _is_multiple(self.step, settings.report_steps):
                        last = self._report(measuring=measuring)
                        metrics.write(last.to_metrics())
                        if on_progress is not None:
                            on_progress(last)
                    if saving:
                        self._save()
                        saved_at = self.seconds
                    if stopping and stop.received is not None:
                        raise TrainingStopped(
                            f"stopped by {stop.received.name} at step {self.step:,}; go on with --resume and the same "
                            "settings."
                        )
                    if self.is_flat:
                        break
        self.model.load_state_dict(self.best)
        self.model.eval()
        return LanguageModelResult(
            self.model,
            self.step,
            self.words,
            self.seconds,
            held_out_loss=self.best_loss,
            is_flat=self.is_flat,
            made_with=self.identity,
            last=last,
        )

    def _batches_left(self) -> list[Integers]:
        """The batches of this epoch from where it stands; the position is that after each."""
        order = np.random.default_rng(derived_seed(self.settings.seed, ORDER, self.epoch))
        return self.windows.batches(self.settings.batch_size, order=order)[self.step_in_epoch :]

    def _descend(self, rows: Integers) -> None:
        """One step: the mean loss over the words of a batch in both directions, and one move of Adam."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate_at(self.step + 1)
        self.optimizer.zero_grad(set_to_none=True)
        texts, words = self.reader.read(self.windows, rows)
        with self._mixed_precision():
            states, targets = self.model.predictions(texts, words)
            loss = self._losses(states, targets).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = clip_gradients(self.model.parameters(), max_norm=self.settings.gradient_clip)
        self.optimizer.step()
        self.sums += torch.stack([loss.detach(), norm]).double()
        self.step += 1
        self.step_in_epoch += 1
        self.words += int(self.windows.lengths[rows].sum())
        if self.step_in_epoch == self.steps_per_epoch:
            self.epoch, self.step_in_epoch = self.epoch + 1, 0

    def _losses(self, states: Tensor, targets: Tensor) -> Tensor:
        table = self.model.vocabulary
        if self.negatives is None:
            return full_losses(table, states, targets)
        drawn = self.negatives.draw(self.settings.negatives, self.draws)
        return sampled_losses(table, states, targets, drawn=drawn, log_chance=self.negatives.log_chance)

    def _mixed_precision(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast)

    def _measure(self) -> float:
        """The held-out loss over the whole vocabulary, and what it means for the run."""
        self.model.eval()
        total, n_words = 0.0, 0
        with torch.no_grad():
            for rows in self.held_out.batches(self.settings.batch_size):
                texts, words = self.reader.read(self.held_out, rows)
                with self._mixed_precision():
                    states, targets = self.model.predictions(texts, words)
                losses = full_losses_in_parts(self.model.vocabulary, states.float(), targets)
                total += float(losses.sum(dtype=torch.float64))
                n_words += targets.shape[0]
        self.model.train()
        loss = total / n_words
        self.n_stale = 0 if loss < self.best_loss - self.settings.improvement else self.n_stale + 1
        if loss < self.best_loss:
            self.best_loss = loss
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        return loss

    def _report(self, *, measuring: bool) -> LanguageModelProgress:
        """Read the losses from the device, see that they are numbers, and measure the held-out loss if it is time."""
        steps, words, seconds = (
            now - before
            for now, before in zip((self.step, self.words, self.seconds), self.reported, strict=True)
        )
        loss, norm = (self.sums / max(steps, 1)).tolist()
        self.sums.zero_()
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingDiverged(
                f"the loss is no longer finite after step {self.step:,} (loss {loss:g}, gradient norm {norm:g}). Lower "
                "training.learning_rate; the last checkpoint is from before."
            )
        held_out_loss = self._measure() if measuring else None
        self.reported = (self.step, self.words, self.seconds)
        return LanguageModelProgress(
            step=self.step,
            epoch=self.epoch + 1 if self.step_in_epoch else self.epoch,
            n_epochs=self.settings.epochs,
            words=self.words,
            words_per_second=words / max(seconds, 1e-9),
            loss=loss,
            held_out_loss=held_out_loss,
            best_held_out_loss=self.best_loss if self.best else None,
            gradient_norm=norm,
            learning_rate=self.settings.learning_rate_at(self.step),
            seconds=self.seconds,
            peak_memory=peak_memory(self.device),
        )

    def _save(self) -> None:
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        moments = optimizer_tensors(self.model, self.optimizer)
        tensors |= {f"optimizer.{name}": value for name, value in moments.items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors["held_out"] = torch.tensor([self.best_loss, self.n_stale], dtype=torch.float64)
        tensors |= {"draws": self.draws.get_state(), "dropout": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["dropout_cuda"] = torch.cuda.get_rng_state(self.device)
        Checkpoint(
            step=self.step,
            epoch=self.epoch,
            step_in_epoch=self.step_in_epoch,
            centers=self.words,
            seconds=self.seconds,
            made_with=self.identity,
            tensors={name: value.cpu().numpy() for name, value in tensors.items()},
        ).save(self.output)

    def restore(self) -> None:
        """Go back to the newest whole checkpoint, if there is one."""
        found = load_newest(self.output)
        if found is None:
            return
        require_same_run(found.made_with, self.identity, output=self.output)
        tensors = {name: torch.from_numpy(value) for name, value in found.tensors.items()}
        self.model.load_state_dict(_under("model.", tensors))
        restore_optimizer(self.model, self.optimizer, _under("optimizer.", tensors))
        self.best = {name: value.to(self.device) for name, value in _under("best.", tensors).items()}
        best_loss, n_stale = tensors["held_out"].tolist()
        self.best_loss, self.n_stale = best_loss, int(n_stale)
        self.draws.set_state(tensors["draws"])
        torch.set_rng_state(tensors["dropout"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["dropout_cuda"], self.device)
        self.step, self.epoch, self.step_in_epoch = found.step, found.epoch, found.step_in_epoch
        self.words, self.seconds_before = found.centers, found.seconds


def _uses_bf16(settings: LanguageModelSettings, device: torch.device) -> bool:
    if settings.precision == "bf16" and device.type == "cpu":
        raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
    return settings.precision == "bf16" or (settings.precision == "auto" and device.type == "cuda")


def _is_multiple(step: int, of: int) -> bool:
    return of > 0 and step % of == 0


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
