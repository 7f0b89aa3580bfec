"""Training a language model until its held-out loss is flat."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.language_model.config import LanguageModelConfig, LanguageModelSettings
from lmcells.language_model.model import LanguageModel, Predictions
from lmcells.language_model.objective import Negatives, full_losses_in_parts, sampled_losses, softmax_losses
from lmcells.language_model.windows import TextBatch, WindowReader, cut_windows
from lmcells.model import count_parameters
from lmcells.training.checkpoint import read_state, under, write_state
from lmcells.training.distributed import (
    CHUNKS,
    DRAWS,
    DROPOUT,
    INITIALISATION,
    ORDER,
    World,
    derived_seed,
    generator_for,
    joined,
    own_randomness,
)
from lmcells.training.loop import Due, Evaluation, StopRequest, drive, require_startable, run_record
from lmcells.training.progress import Clock, Peak, peak_memory, peak_of, read_metrics, require_finite
from lmcells.training.settings import MAY_CHANGE
from lmcells.training.step import Totals, clip_gradients, create_optimizer, set_learning_rate, uses_bf16

# When a loss is flat: it has stopped falling by more than a small part of itself.


class Flatness:
    """Follows a loss from check to check.

    A check counts as an improvement when the loss is lower by the relative `tolerance` than at the last improvement,
    so that many small steps down are one as well. After `patience` checks in a row without, the loss is flat.
    """

    def __init__(self, *, tolerance: float, patience: int) -> None:
        self._tolerance, self._patience = tolerance, patience
        self.lowest = math.inf
        self.n_unimproved = 0  # checks without improvement so far, in a row or not
        self._improved, self._n_stale = math.inf, 0  # the loss of the last improvement, and the checks since

    @property
    def is_flat(self) -> bool:
        return self._n_stale >= self._patience

    def add(self, loss: float, *, counts: bool = True) -> bool:
        """Take note of a check; -> whether its loss is the lowest so far.

        One that does not count can improve the loss, but it is no sign of flatness.
        """
        if loss < self._improved * (1 - self._tolerance):
            self._improved, self._n_stale = loss, 0
        elif counts:
            self._n_stale += 1
            self.n_unimproved += 1
        is_lowest = loss < self.lowest
        self.lowest = min(loss, self.lowest)
        return is_lowest

    def state(self) -> Tensor:
        """What a checkpoint keeps: (4,) float64."""
        return torch.tensor(
            [self.lowest, self._improved, self._n_stale, self.n_unimproved], dtype=torch.float64
        )

    def restore(self, state: Tensor) -> None:
        """Put back what `state` returned."""
        self.lowest, self._improved, n_stale, n_unimproved = state.tolist()
        self._n_stale, self.n_unimproved = int(n_stale), int(n_unimproved)


# One run of a language model: what it is made of, where it stands, and the steps it takes.


Ending = Literal["flat", "epochs"]
"""Why a run is over: its held-out loss is flat, or it could still improve but all epochs are done."""


class LanguageModelRun:
    """Model, optimiser and windows, the position in the corpus, and the best weights so far.

    `epoch` and `step_in_epoch` say where the next step begins, from 0; `step` and `centers`, the words, what was done.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        config: LanguageModelConfig,
        settings: LanguageModelSettings,
        world: World,
        output: Path,
    ) -> None:
        self.settings, self.world, self.output = settings, world, output
        device = world.device
        self.identity = _identity(corpus, config=config, settings=settings, device=device)
        self._autocast = uses_bf16(settings.precision, device)

        torch.manual_seed(derived_seed(settings.seed, INITIALISATION))
        self.model = LanguageModel(config).to(device)
        self.model.vocabulary.start_from(corpus.word_counts)
        torch.manual_seed(derived_seed(settings.seed, DROPOUT))
        self.optimizer = create_optimizer(self.model, learning_rate=settings.learning_rate)
        self._reader = WindowReader(corpus, max_characters=config.max_characters, device=device)
        self._windows, held_out = cut_windows(
            corpus,
            window=settings.window,
            held_out=settings.held_out,
            seed=derived_seed(settings.seed, CHUNKS),
        )
        self._held_out = held_out.first_words(settings.held_out_words)
        self._steps_per_epoch = len(self._windows.batches(settings.batch_size))  # in whatever order
        self._negatives = None
        if config.n_words > settings.full_softmax:
            self._negatives = Negatives.of_counts(
                corpus.word_counts, exponent=settings.negative_exponent, device=device
            )
        self.draws = generator_for(device, settings.seed, DRAWS)

        self.step, self.epoch, self.step_in_epoch, self.centers = 0, 0, 0, 0
        self.clock = Clock()
        self.totals = Totals(device, n_parts=1)
        self.flatness = Flatness(tolerance=settings.flat_tolerance, patience=settings.flat_patience)
        self.measured: float | None = None  # the held-out loss, after a step that was followed by a check
        self.best: dict[str, Tensor] = {}  # the weights of the lowest held-out loss

    @property
    def ending(self) -> Ending | None:
        """Why there is no step left, or None while there is one."""
        if self.flatness.is_flat:
            return "flat"
        return "epochs" if self.epoch >= self.settings.epochs else None

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return self.settings.learning_rate_at(self.step + 1, n_unimproved=self.flatness.n_unimproved)

    def steps(self) -> Iterator[None]:
        """Train one step at a time, from where the run stands until the loss is flat or all epochs are done."""
        while self.ending is None:
            order = np.random.default_rng(derived_seed(self.settings.seed, ORDER, self.epoch))
            batches = self._reader.batches(
                self._windows, self.settings.batch_size, order=order, first=self.step_in_epoch
            )
            for batch in batches:
                self._descend(batch)
                self.measured = self._measure() if self._is_time_to_check() else None
                yield
                if self.flatness.is_flat:
                    break

    def _descend(self, batch: TextBatch) -> None:
        """One step: the mean loss over the words of a batch in both directions, and one move of Adam."""
        set_learning_rate(self.optimizer, self.learning_rate)
        self.optimizer.zero_grad(set_to_none=True)
        with self._mixed_precision():
            predictions = self.model.predictions(batch.texts, batch.words)
            losses = torch.where(predictions.present, self._losses(predictions), 0.0)
        loss = losses.sum() / (2 * batch.n_words)
        loss.backward()  # type: ignore[no-untyped-call]
        self.totals.add_norm(clip_gradients(self.model.parameters(), max_norm=self.settings.gradient_clip))
        self.optimizer.step()
        self.totals.add(loss.detach().unsqueeze(0))
        self.totals.count_step(n_rows=batch.n_words)
        self.step += 1
        self.step_in_epoch += 1
        self.centers += batch.n_words
        if self.step_in_epoch == self._steps_per_epoch:
            self.epoch, self.step_in_epoch = self.epoch + 1, 0

    def _losses(self, predictions: Predictions) -> Tensor:
        states, words, _ = predictions
        if self._negatives is None:
            return softmax_losses(self.model.vocabulary, states, words)
        drawn = self._negatives.draw(self.settings.negatives, self.draws)
        return sampled_losses(
            self.model.vocabulary, states, words, drawn=drawn, log_chance=self._negatives.log_chance
        )

    def _is_time_to_check(self) -> bool:
        every = self.settings.check_steps
        return self.step_in_epoch == 0 or (every > 0 and self.step % every == 0)

    def _measure(self) -> float:
        """The held-out loss over the whole vocabulary; the weights are kept if it is the lowest. It takes no time."""
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)  # steps that are still under way are training
        with self.clock.paused():
            self.model.eval()
            loss = self._held_out_loss()
            self.model.train()
            if self.flatness.add(loss, counts=self.step > self.settings.warmup_steps):
                self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        return loss

    @torch.no_grad()
    def _held_out_loss(self) -> float:
        total = torch.zeros((), dtype=torch.float64, device=self.world.device)
        for batch in self._reader.batches(self._held_out, self.settings.batch_size):
            with self._mixed_precision():
                states, words, present = self.model.predictions(batch.texts, batch.words)
            losses = full_losses_in_parts(self.model.vocabulary, states.float(), words)
            total += torch.where(present, losses, 0.0).sum(dtype=torch.float64)
        return float(total) / (2 * self._held_out.n_words)

    def _mixed_precision(self) -> AbstractContextManager[None]:
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=self._autocast)


def _identity(
    corpus: Corpus, *, config: LanguageModelConfig, settings: LanguageModelSettings, device: torch.device
) -> dict[str, Any]:
    """What must be the same for a run to go on where it stopped."""
    training = {name: value for name, value in settings.to_dict().items() if name not in MAY_CHANGE}
    return {
        "language_model": config.to_dict(),
        "training": training,
        "corpus": {"fingerprint": corpus.manifest.fingerprint},
        "device": {"type": device.type},
    }


# What a language model's run says about itself while it goes on.


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


def report(run: "LanguageModelRun") -> LanguageModelProgress:
    """Read the losses from the device, and see that they are numbers."""
    sums = run.totals.read_sums(run.world)
    seconds, passed = run.clock.lap()
    loss = sums.parts[0] / max(sums.n_steps, 1)
    require_finite(
        {"loss": loss, "gradient norm": sums.gradient_norm},
        step=run.step,
        advice="Lower training.learning_rate",
    )
    return LanguageModelProgress(
        step=run.step,
        epoch=run.epoch + 1 if run.step_in_epoch else run.epoch,
        n_epochs=run.settings.epochs,
        words=run.centers,
        words_per_second=sums.n_rows / max(passed, 1e-9),
        loss=loss,
        held_out_loss=run.measured,
        best_held_out_loss=run.flatness.lowest if run.best else None,
        gradient_norm=sums.gradient_norm,
        learning_rate=run.learning_rate,
        seconds=seconds,
        peak_memory=peak_memory(run.world.device),
    )


# A language model's run to a checkpoint, and back.


def save_run(run: LanguageModelRun) -> None:
    """Write a checkpoint, the best weights so far among it."""
    own = {f"best.{name}": value for name, value in run.best.items()}
    write_state(run, own | {"flatness": run.flatness.state(), "draws": run.draws.get_state()})


def restore_run(run: LanguageModelRun) -> None:
    """Go back to the newest whole checkpoint, if there is one."""
    tensors = read_state(run)
    if tensors is None:
        return
    run.best = {name: value.to(run.world.device) for name, value in under("best.", tensors).items()}
    run.flatness.restore(tensors["flatness"])
    run.draws.set_state(tensors["draws"])


# Training a language model until its held-out loss is flat.


@dataclass(frozen=True, slots=True)
class LanguageModelResult:
    """The model as it was when its held-out loss was lowest, in evaluation mode, and how it came about."""

    model: LanguageModel
    n_steps: int
    n_words: int
    seconds: float
    held_out_loss: float
    ending: Ending
    made_with: dict[str, Any]
    last: LanguageModelProgress | None  # None where there was nothing left to do
    peak: Peak  # of the scores, or of the held-out loss where there are none


def train_language_model(
    corpus: Corpus,
    *,
    config: LanguageModelConfig,
    settings: LanguageModelSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[LanguageModelProgress], None] | None = None,
    evaluate: Evaluation | None = None,
) -> LanguageModelResult:
    """Train until the held-out loss is flat or all epochs are done; checkpoints and metrics.jsonl go to `output`.

    With `resume` a run goes on from its newest whole checkpoint, or starts if there is none; on the CPU it then ends
    with the same numbers, bit for bit. SIGTERM and SIGINT write a checkpoint and raise TrainingStopped. `evaluate` is
    called while training; what it returns is logged. The global random state is left as it was.
    """
    require_startable(corpus, output, resume=resume)
    if config.n_words != len(corpus.words):
        raise ConfigError(f"n_words is {config.n_words:,}; {corpus.folder} has {len(corpus.words):,} words.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a language model is trained by one process. Start it without torchrun.")
    with joined(device) as world, own_randomness(world.device), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = LanguageModelRun(corpus, config=config, settings=settings, world=world, output=output)
        if resume:
            restore_run(run)
        last = drive(
            run, stop, due=_due, report=report, save=save_run, on_progress=on_progress, evaluate=evaluate
        )
        seconds = run.clock.seconds
        run.model.load_state_dict(run.best)
        run.model.eval()
        return LanguageModelResult(
            run.model,
            run.step,
            run.centers,
            seconds,
            held_out_loss=run.flatness.lowest,
            ending=run.ending or "epochs",
            made_with=run.identity,
            last=last,
            peak=peak_of(output) or _lowest_loss(output),
        )


def _due(run: LanguageModelRun) -> Due:
    """A check asks for a report, the end for everything; small corpora have too many checks to save at each."""
    settings, checked, over = run.settings, run.measured is not None, run.ending is not None
    return Due(
        report=checked,
        evaluate=over or (checked and settings.evaluate_minutes == 0),
        save=over or (checked and settings.checkpoint_minutes == 0),
    )


def _lowest_loss(output: Path) -> Peak:
    """The first check with the lowest held-out loss of all."""
    checks = [line for line in read_metrics(output) if "held_out_loss" in line]
    lowest = min(checks, key=lambda line: line["held_out_loss"])
    return Peak("held_out_loss", lowest["held_out_loss"], lowest["step"], lowest["seconds"] / 3600)


# What a language model's folder says about how it was trained.


def language_model_record(result: LanguageModelResult, *, settings: LanguageModelSettings) -> dict[str, Any]:
    """What is known of every run, why this one ended, and what came of it, as plain data for JSON."""
    return {
        **run_record(result, settings=settings),
        "words": result.n_words,
        "held_out_loss": result.held_out_loss,
        "ended_by": result.ending,
        "parameters": count_parameters(result.model),
    }
