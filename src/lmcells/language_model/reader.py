"""Windows of the corpus as a model takes them, gathered on its device."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.language_model.characters import spell_out
from lmcells.language_model.model import Texts
from lmcells.language_model.windows import TextWindows, WindowBatch
from lmcells.training.device_corpus import to_device
from lmcells.training.draws import take


@dataclass(frozen=True, slots=True)
class TextBatch:
    """The windows of one step."""

    texts: Texts
    words: Tensor  # (B, T) ids of the vocabulary
    n_words: int  # that are there


class WindowReader:
    """Reads windows; the corpus and its words' characters lie on the device, and no batch waits for it."""

    def __init__(self, corpus: Corpus, *, max_characters: int, device: torch.device) -> None:
        self._tokens = to_device(corpus.tokens, device)
        self._characters = spell_out(corpus.words, max_characters=max_characters).to(device)
        self._device = device

    def batches(
        self,
        windows: TextWindows,
        batch_size: int,
        *,
        order: np.random.Generator | None = None,
        first: int = 0,
    ) -> Iterator[TextBatch]:
        """Batches of about `batch_size` words from the one numbered `first` on; windows are sent once for all."""
        batches = windows.batches(batch_size, order=order)[first:]
        starts, lengths = self._sent(windows, batches, batch_size)
        begin = 0
        for rows, width in batches:
            end = begin + self._n_rows(rows.size, width, batch_size)
            n_words = int(windows.lengths[rows].sum())
            yield self._read(starts[begin:end], lengths[begin:end], width=width, n_words=n_words)
            begin = end

    def _sent(
        self, windows: TextWindows, batches: list[WindowBatch], batch_size: int
    ) -> tuple[Tensor, Tensor]:
        """Starts and lengths of all batches one after the other, on the device; windows of no words fill them up."""
        sizes = [self._n_rows(rows.size, width, batch_size) for rows, width in batches]
        starts, lengths = np.zeros((2, sum(sizes)), np.int64)
        for begin, (rows, _) in zip(np.cumsum([0, *sizes]), batches, strict=False):
            starts[begin : begin + rows.size] = windows.starts[rows]
            lengths[begin : begin + rows.size] = windows.lengths[rows]
        return to_device(starts, self._device), to_device(lengths, self._device)

    def _n_rows(self, n_windows: int, width: int, batch_size: int) -> int:
        """Rows of a batch: on the CPU one a window; on a GPU always as many, for its memory is kept by shape."""
        return n_windows if self._device.type == "cpu" else max(n_windows, batch_size // width)

    def _read(self, starts: Tensor, lengths: Tensor, *, width: int, n_words: int) -> TextBatch:
        place = torch.arange(width, device=self._device, dtype=torch.int32)  # (T,)
        # Where a window has ended its last word is repeated: no new word is spelt out for padding.
        inside = torch.minimum(place, lengths.unsqueeze(1) - 1).clamp(min=0)  # (B, T)
        words = take(self._tokens, starts.unsqueeze(1) + inside).long()
        return TextBatch(Texts(*self._spelt(words), lengths), words, n_words)

    def _spelt(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Characters, and which of them each word has: of the words of the batch on the CPU, of all on a GPU.

        On a GPU shapes must not depend on the batch; on the CPU fewer words are less work.
        """
        if self._device.type != "cpu":
            return self._characters, words
        distinct, index = torch.unique(words, return_inverse=True)
        return self._characters[distinct], index
