"""The corpus as windows of words, and which of them are held out."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus

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

    def batches(self, batch_size: int, *, order: np.random.Generator | None = None) -> list["WindowBatch"]:
        """All windows in batches of about `batch_size` words; those of like length share one, so little is padded.

        With `order` both the windows within a length and the batches are shuffled.
        """
        n = self.starts.size
        shuffled = np.arange(n) if order is None else order.permutation(n)
        width_of = widths_up_to(int(self.lengths.max(initial=1)))
        width_of = width_of[np.searchsorted(width_of, self.lengths)]  # (n,)
        batches = []
        for width in np.unique(width_of)[::-1].tolist():  # the longest first
            rows = shuffled[width_of[shuffled] == width]
            size = max(1, batch_size // width)
            batches += [WindowBatch(rows[first : first + size], width) for first in range(0, rows.size, size)]
        return batches if order is None else [batches[index] for index in order.permutation(len(batches))]


class WindowBatch(NamedTuple):
    """Windows that are read together."""

    rows: Integers
    width: int  # to which each is padded


def widths_up_to(longest: int) -> Integers:
    """1, 2, 3, 4, 6, 8, 12, 16...: few enough that shapes come again and again, and dense enough to pad little."""
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
    turn = np.random.default_rng(seed).permutation(n_documents)[document]  # in this order they are measured
    kept, measured = np.flatnonzero(turn >= n_held_out), np.flatnonzero(turn < n_held_out)
    measured = measured[np.argsort(turn[measured], kind="stable")]
    return _cut(begins[kept], sizes[kept], window), _cut(begins[measured], sizes[measured], window)


def _cut(begins: Integers, sizes: Integers, window: int) -> TextWindows:
    pieces = -(-sizes // window)  # of each segment
    ends = pieces.cumsum()
    number = np.arange(int(pieces.sum())) - np.repeat(ends - pieces, pieces)  # of a piece within its segment
    starts = np.repeat(begins, pieces) + number * window
    return TextWindows(starts, np.minimum(window, np.repeat(begins + sizes, pieces) - starts))
