"""The corpus as windows of words, and which of them make a batch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.language_model.characters import spell_out
from lmcells.language_model.model import Texts
from lmcells.training.device_corpus import to_device
from lmcells.training.draws import take

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

    def batches(self, batch_size: int, *, order: np.random.Generator | None = None) -> list[Integers]:
        """Rows of about `batch_size` words each; windows of like length share a batch, so little is padded.

        With `order` both the windows within a length and the batches are shuffled.
        """
        n = self.starts.size
        shuffled = np.arange(n) if order is None else order.permutation(n)
        rows = shuffled[np.argsort(-self.lengths[shuffled], kind="stable")]  # the longest first
        batches, first = [], 0
        while first < n:
            last = first + max(1, batch_size // int(self.lengths[rows[first]]))
            batches.append(rows[first:last])
            first = last
        return batches if order is None else [batches[index] for index in order.permutation(len(batches))]


def cut_windows(
    corpus: Corpus, *, window: int, held_out: float, seed: int
) -> tuple[TextWindows, TextWindows]:
    """Cut every segment into windows; return those to train on, and those of the segments that are held out.

    At least one segment is held out, and at least one is not, unless there is only one: then it is both.
    """
    segment = np.asarray(corpus.token_segment)
    begins = np.flatnonzero(np.append(True, segment[1:] != segment[:-1])).astype(np.int64)  # of each segment
    sizes = np.diff(begins, append=segment.size)
    n_held_out = min(max(1, round(held_out * sizes.size)), max(1, sizes.size - 1))
    chosen = np.random.default_rng(seed).permutation(sizes.size)  # in this order they are measured
    if sizes.size == 1:
        return (_cut(begins, sizes, window),) * 2
    kept = np.sort(chosen[n_held_out:])
    measured = chosen[:n_held_out]
    return _cut(begins[kept], sizes[kept], window), _cut(begins[measured], sizes[measured], window)


def _cut(begins: Integers, sizes: Integers, window: int) -> TextWindows:
    pieces = -(-sizes // window)  # of each segment
    ends = pieces.cumsum()
    number = np.arange(int(pieces.sum())) - np.repeat(ends - pieces, pieces)  # of a piece within its segment
    starts = np.repeat(begins, pieces) + number * window
    return TextWindows(starts, np.minimum(window, np.repeat(begins + sizes, pieces) - starts))


class WindowReader:
    """Reads windows as the model takes them; the corpus and its words' characters lie on the device."""

    def __init__(self, corpus: Corpus, *, max_characters: int, device: torch.device) -> None:
        self._tokens = to_device(corpus.tokens, device)
        self._characters = spell_out(corpus.words, max_characters=max_characters).to(device)
        self._device = device

    def read(self, windows: TextWindows, rows: Integers) -> tuple[Texts, Tensor]:
        """The texts of some windows, and the ids of their words (B, T)."""
        starts = torch.from_numpy(windows.starts[rows]).to(self._device)
        lengths = torch.from_numpy(windows.lengths[rows]).to(self._device)
        place = torch.arange(int(windows.lengths[rows].max()), device=self._device)  # (T,)
        # Where a window has ended its last word is repeated: no new word is spelt out for padding.
        inside = torch.minimum(place, lengths.unsqueeze(1) - 1)  # (B, T)
        words = take(self._tokens, starts.unsqueeze(1) + inside).long()
        distinct, index = torch.unique(words, return_inverse=True)
        return Texts(self._characters[distinct], index, lengths), words
