"""Training a language model until its held-out loss is flat."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.language_model.config import LanguageModelConfig, LanguageModelSettings
from lmcells.language_model.model import LanguageModel
from lmcells.language_model.objective import full_losses, negatives, sampled_losses, softmax_losses
from lmcells.language_model.windows import TextBatch, WindowReader, cut_windows
from lmcells.model import count_parameters
from lmcells.training.checkpoint import under
from lmcells.training.distributed import (
    CHUNKS,
    DRAWS,
    DROPOUT,
    INITIALISATION,
    ORDER,
    World,
    derived_seed,
    generator_for,
)
from lmcells.training.loop import run_task
from lmcells.training.metrics import Progress
from lmcells.training.task import Task


@dataclass(slots=True, kw_only=True)
class EarlyStopping:
    """Follows a loss from check to check until it is flat.

    A check counts as an improvement when the loss is lower by the relative `tolerance` than at the last improvement,
    so that many small steps down are one as well. After `patience` checks in a row without, the loss is flat.
    """

    tolerance: float
    patience: int
    lowest: float = math.inf
    improved: float = math.inf  # the loss of the last improvement
    n_stale: int = 0  # checks since then
    n_unimproved: int = 0  # checks without improvement so far, in a row or not

    @property
    def is_flat(self) -> bool:
        return self.n_stale >= self.patience

    def add(self, loss: float, *, counts: bool = True) -> bool:
        """Add the loss of a check; -> whether it is the lowest so far.

        A check that does not count can improve the loss, but never makes it flat.
        """
        if loss < self.improved * (1 - self.tolerance):
            self.improved, self.n_stale = loss, 0
        elif counts:
            self.n_stale += 1
            self.n_unimproved += 1
        is_lowest = loss < self.lowest
        self.lowest = min(loss, self.lowest)
        return is_lowest

    def state(self) -> Tensor:
        """The state for a checkpoint: (4,) float64."""
        values = [self.lowest, self.improved, self.n_stale, self.n_unimproved]
        return torch.tensor(values, dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        self.lowest, self.improved, *counts = state.tolist()
        self.n_stale, self.n_unimproved = map(int, counts)


class LanguageModelTask(Task[LanguageModel, TextBatch]):
    """Trains a language model, checks its held-out loss, and keeps the best weights."""

    unit = "words"
    loss_names = ("loss",)
    saves_at_checks = False  # a small corpus has too many checks to save at each
    settings: LanguageModelSettings

    def __init__(
        self, corpus: Corpus, *, config: LanguageModelConfig, settings: LanguageModelSettings, world: World
    ) -> None:
        device, seed = world.device, settings.seed
        torch.manual_seed(derived_seed(seed, INITIALISATION))
        model = LanguageModel(config).to(device)
        model.vocabulary.start_from(corpus.word_counts)
        torch.manual_seed(derived_seed(seed, DROPOUT))
        identity = {"language_model": config.to_dict()}
        super().__init__(corpus, model, settings=settings, world=world, identity=identity)
        self._reader = WindowReader(corpus, max_characters=config.max_characters, device=device)
        self._windows, held_out = cut_windows(
            corpus, window=settings.window, held_out=settings.held_out, seed=derived_seed(seed, CHUNKS)
        )
        self._held_out = held_out.first_words(settings.held_out_words)
        self.steps_per_epoch = len(self._windows.batches(settings.batch_size))  # in whatever order
        self._negatives = None
        if config.n_words > settings.full_softmax:
            self._negatives = negatives(
                corpus.word_counts, exponent=settings.negative_exponent, device=device
            )
        self._draws = generator_for(device, seed, DRAWS)
        self._stopping = EarlyStopping(tolerance=settings.flat_tolerance, patience=settings.flat_patience)
        self._measured: float | None = None  # the held-out loss, after a step that was followed by a check
        self._best: dict[str, Tensor] = {}  # the weights of the lowest held-out loss

    @property
    def ending(self) -> Literal["flat", "epochs"] | None:
        """Why no step is left: the held-out loss is flat, or all epochs are done; None while one is left."""
        if self._stopping.is_flat:
            return "flat"
        return "epochs" if self.epoch >= self.settings.epochs else None

    @property
    def is_over(self) -> bool:
        return self.ending is not None

    @property
    def learning_rate(self) -> float:
        return self.settings.learning_rate_at(self.step + 1, n_unimproved=self._stopping.n_unimproved)

    def batches(self) -> Iterator[TextBatch]:
        order = np.random.default_rng(derived_seed(self.settings.seed, ORDER, self.epoch))
        size = self.settings.batch_size
        return self._reader.batches(self._windows, size, order=order, first=self.step_in_epoch)

    def train_on(self, batch: TextBatch) -> int:
        """One step: the mean loss over the words of a batch in both directions, and one step of Adam."""
        self.model.zero_grad()
        table = self.model.vocabulary
        with self.autocast():
            states, words, present = self.model.predictions(batch.texts, batch.words)
            if self._negatives is None:
                losses = softmax_losses(table, states, words)
            else:
                distribution, log_chance = self._negatives
                drawn = distribution.draw((self.settings.negatives,), self._draws)
                losses = sampled_losses(table, states, words, drawn=drawn, log_chance=log_chance)
            losses = torch.where(present, losses, 0.0)
        loss = losses.sum() / (2 * batch.n_words)
        loss.backward()  # type: ignore[no-untyped-call]
        self.sums[:-1] += loss.detach()
        self.apply_gradients()
        return batch.n_words

    def check(self) -> bool:
        """Measure the held-out loss where it is time for it, and keep the weights if it is the lowest."""
        every = self.settings.check_steps
        self._measured = None
        if self.step_in_epoch and not (every and self.step % every == 0):
            return False
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)  # steps that are still under way are training
        with self.clock.paused():
            self.model.eval()
            self._measured = self._held_out_loss()
            self.model.train()
            if self._stopping.add(self._measured, counts=self.step > self.settings.warmup_steps):
                self._best = {name: value.clone() for name, value in self.model.state_dict().items()}
        return True

    @torch.no_grad()
    def _held_out_loss(self) -> float:
        """Over the whole vocabulary."""
        total = torch.zeros((), dtype=torch.float64, device=self.world.device)
        for batch in self._reader.batches(self._held_out, self.settings.batch_size):
            with self.autocast():
                states, words, present = self.model.predictions(batch.texts, batch.words)
            losses = full_losses(self.model.vocabulary, states.float(), words)
            total += torch.where(present, losses, 0.0).sum(dtype=torch.float64)
        return float(total) / (2 * self._held_out.n_words)

    def mean_losses(self, sums: list[float], *, n_steps: int, n_examples: int) -> dict[str, float | None]:  # noqa: ARG002
        """Nats per word, of both directions, averaged over steps."""
        return {"loss": sums[0] / n_steps}

    @property
    def held_out_losses(self) -> dict[str, float]:
        measured = {} if self._measured is None else {"held_out_loss": self._measured}
        return measured | ({"best_held_out_loss": self._stopping.lowest} if self._best else {})

    def own_state(self) -> dict[str, Tensor]:
        best = {f"best.{name}": value for name, value in self._best.items()}
        return best | {"flatness": self._stopping.state(), "draws": self._draws.get_state()}

    def restore_own_state(self, tensors: Mapping[str, Tensor]) -> None:
        device = self.world.device
        self._best = {name: value.to(device) for name, value in under("best.", tensors).items()}
        self._stopping.restore(tensors["flatness"])
        self._draws.set_state(tensors["draws"])

    def finish(self, last: Progress | None) -> dict[str, Any]:  # noqa: ARG002
        self.model.load_state_dict(self._best)
        return {
            "words": self.n_examples,
            "held_out_loss": self._stopping.lowest,
            "ended_by": self.ending or "epochs",
            "parameters": count_parameters(self.model),
        }


train_language_model = partial(run_task, LanguageModelTask)
