"""Training a language model on windows of a corpus, until its loss on those held out is flat."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.files import under
from lmcells.language_model.config import LanguageModelConfig, LanguageModelSettings
from lmcells.language_model.model import (
    LanguageModel,
    Texts,
    full_losses,
    negatives,
    sampled_losses,
    softmax_losses,
    spell_out,
)
from lmcells.model import count_parameters
from lmcells.training.device_corpus import take, to_device
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

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextWindows:
    """Where windows begin in the corpus, and how many words each has."""

    starts: Integers  # (n,)
    lengths: Integers  # (n,)

    @property
    def n_words(self) -> int:
        return int(self.lengths.sum())

    def first_words(self, n_words: int) -> "TextWindows":
        """The first windows that have this many words together, or at least the first one."""
        n = max(1, int(np.searchsorted(self.lengths.cumsum(), n_words, side="right")))
        return TextWindows(self.starts[:n], self.lengths[:n])

    def batches(
        self, batch_size: int, *, order: np.random.Generator | None = None
    ) -> list[tuple[Integers, int]]:
        """Rows of windows that are read together, about `batch_size` words, and the width to which they are padded.

        Windows of similar length share a batch, to pad little. With `order` both the windows of a length and the
        batches are shuffled.
        """
        n = self.starts.size
        shuffled = np.arange(n) if order is None else order.permutation(n)
        width_of = widths_up_to(int(self.lengths.max(initial=1)))
        width_of = width_of[np.searchsorted(width_of, self.lengths)]  # (n,)
        batches = []
        for width in np.unique(width_of)[::-1].tolist():  # the longest first
            rows = shuffled[width_of[shuffled] == width]
            size = max(1, batch_size // width)
            batches += [(rows[first : first + size], width) for first in range(0, rows.size, size)]
        return batches if order is None else [batches[index] for index in order.permutation(len(batches))]


def widths_up_to(longest: int) -> Integers:
    """1, 2, 3, 4, 6, 8, 12, 16...: few enough that shapes recur, and dense enough to pad little."""
    powers = 2 ** np.arange(longest.bit_length() + 1)
    return np.unique(np.concatenate([powers, 3 * powers // 2]))


def cut_windows(
    corpus: Corpus, *, window: int, held_out: float, seed: int
) -> tuple[TextWindows, TextWindows]:
    """Cut every segment into windows; return those to train on, and those of the documents that are held out.

    At least one document is held out, and at least one is not, unless there is only one: then it is both.
    """
    segment = np.asarray(corpus.token_segment)
    begins = np.flatnonzero(np.append(True, segment[1:] != segment[:-1])).astype(np.int64)  # of each segment
    sizes = np.diff(begins, append=segment.size)
    _, document = np.unique(corpus.segment_metadata("document")[segment[begins]], return_inverse=True)
    n_documents = int(document.max()) + 1
    if n_documents == 1:
        return (_cut(begins, sizes, window),) * 2
    n_held_out = min(max(1, round(held_out * n_documents)), n_documents - 1)
    # the order in which they are measured
    turn = np.random.default_rng(seed).permutation(n_documents)[document]
    kept, measured = np.flatnonzero(turn >= n_held_out), np.flatnonzero(turn < n_held_out)
    measured = measured[np.argsort(turn[measured], kind="stable")]
    return _cut(begins[kept], sizes[kept], window), _cut(begins[measured], sizes[measured], window)


def _cut(begins: Integers, sizes: Integers, window: int) -> TextWindows:
    pieces = -(-sizes // window)  # of each segment
    ends = pieces.cumsum()
    number = np.arange(int(pieces.sum())) - np.repeat(ends - pieces, pieces)  # of a piece in its segment
    starts = np.repeat(begins, pieces) + number * window
    return TextWindows(starts, np.minimum(window, np.repeat(begins + sizes, pieces) - starts))


class TextBatch(NamedTuple):
    """The windows of one step."""

    texts: Texts
    words: Tensor  # (B, T) ids of the vocabulary
    n_words: int  # that are there


class WindowReader:
    """Reads windows; the corpus and its words' characters are on the device, and no batch waits for it."""

    def __init__(self, corpus: Corpus, *, max_characters: int, device: torch.device) -> None:
        self._tokens = to_device(corpus.tokens, device)
        self._characters = spell_out(corpus.words, max_characters=max_characters).to(device)
        self._device = device
        self._finds_distinct = device.type == "cpu"  # would wait for a GPU

    def batches(
        self,
        windows: TextWindows,
        batch_size: int,
        *,
        order: np.random.Generator | None = None,
        first: int = 0,
    ) -> Iterator[TextBatch]:
        """Batches of about `batch_size` words from number `first` on; all windows are sent to the device at once."""
        batches = windows.batches(batch_size, order=order)[first:]
        sizes = [self._n_rows(rows.size, width, batch_size) for rows, width in batches]
        starts, lengths = np.zeros((2, sum(sizes)), np.int64)  # filled up with empty windows
        for begin, (rows, _) in zip(np.cumsum([0, *sizes]), batches, strict=False):
            starts[begin : begin + rows.size] = windows.starts[rows]
            lengths[begin : begin + rows.size] = windows.lengths[rows]
        parts = (torch.split(to_device(each, self._device), sizes) for each in (starts, lengths))
        for (rows, width), start, length in zip(batches, *parts, strict=True):
            offsets = torch.arange(width, device=self._device, dtype=torch.int32)  # (T,)
            # After the end of a window its last word is repeated: no new word is spelt out for padding.
            inside = torch.minimum(offsets, length.unsqueeze(1) - 1).clamp(min=0)  # (B, T)
            words = take(self._tokens, start.unsqueeze(1) + inside).long()
            yield TextBatch(Texts(*self._spelt(words), length), words, int(windows.lengths[rows].sum()))

    def _spelt(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The characters of words to spell out, and which of them each of `words` is."""
        if self._finds_distinct:
            distinct, index = torch.unique(words, return_inverse=True)
            return self._characters[distinct], index
        # On a GPU shapes must not depend on what a batch says: all positions, or the vocabulary if that is less.
        if words.numel() < self._characters.shape[0]:
            return self._characters[words.flatten()], torch.arange(
                words.numel(), device=self._device
            ).view_as(words)
        return self._characters, words

    def _n_rows(self, n_windows: int, width: int, batch_size: int) -> int:
        """Rows of a batch: the windows on the CPU; a fixed number on a GPU, whose memory is reused by shape."""
        return n_windows if self._device.type == "cpu" else max(n_windows, batch_size // width)


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
