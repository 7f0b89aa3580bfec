"""The present words of a batch of windows, without the holes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PackedWindows:
    """Rows sorted by length, longest first, their words moved to the left; T is the length of the longest."""

    order: Ids  # (B,) which row of the batch stands where
    lengths: Ids  # (B,)
    words: Ids  # (B, T), 0 beyond the end of a row
    _places: tuple[
        Ids, Ids, Ids
    ]  # of each present word: its row and column in the batch, its rank in the row

    @classmethod
    def of(cls, context: Ids, mask: Mask) -> "PackedWindows":
        """Pack `context` (B, 2S) where `mask` is true."""
        lengths = mask.sum(axis=1)
        order = np.argsort(-lengths, kind="stable")
        rows, columns = np.nonzero(mask)
        ranks = np.arange(rows.size) - (np.cumsum(lengths) - lengths)[rows]
        words = np.zeros((mask.shape[0], lengths.max(initial=0)), np.intp)
        words[rows, ranks] = context[rows, columns]
        return cls(order, lengths[order], words[order], (rows, columns, ranks))

    def unpack(self, values: Floats, *, width: int) -> Floats:
        """Put values of packed words back where the words stood: (B, T) -> (B, width), 0 where none did."""
        rows, columns, ranks = self._places
        place_of = np.empty_like(self.order)
        place_of[self.order] = np.arange(self.order.size)
        unpacked = np.zeros((self.order.size, width), np.float32)
        unpacked[rows, columns] = values[place_of[rows], ranks]
        return unpacked
