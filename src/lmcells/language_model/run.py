"""One run of a language model: what it is made of, where it stands, and the steps it takes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.flatness import Flatness
from lmcells.language_model.model import LanguageModel, Predictions
from lmcells.language_model.objective import (
    Negatives,
    full_losses_in_parts,
    sampled_losses,
    softmax_losses,
)
from lmcells.language_model.reader import TextBatch, WindowReader
from lmcells.language_model.settings import LanguageModelSettings
from lmcells.language_model.windows import cut_windows
from lmcells.training.clock import Clock
from lmcells.training.distributed import World
from lmcells.training.optimizer import clip_gradients, create_optimizer, set_learning_rate
from lmcells.training.precision import uses_bf16
from lmcells.training.seeds import CHUNKS, DRAWS, DROPOUT, INITIALISATION, ORDER, derived_seed, generator_for
from lmcells.training.settings import MAY_CHANGE
from lmcells.training.totals import Totals

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
