"""The corpus as windows of words: which are held out, and batches of them on the device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.language_model.model import Texts, spell_out
from lmcells.training.device_corpus import take, to_device

Integers = npt.NDArray[np.int64]
_DOCUMENT = "document"


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
    _, document = np.unique(corpus.segment_metadata(_DOCUMENT)[segment[begins]], return_inverse=True)
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
