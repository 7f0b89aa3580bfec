"""The gap reader in numpy: what stands next to a gap, read together with all that is around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.one_core import Floats, matmul_on_one_core
from lmcells.pretrained.packed_windows import Ids, Mask, PackedWindows


@dataclass(frozen=True, slots=True)
class GapSurroundings:
    """Where the marks of a batch are and what stands around them, as far as a reader wants to look."""

    marked: Mask  # (B,)
    ranks: Ids  # (B,) of the mark among the present words
    lengths: Ids  # (B,)
    words: Ids  # (B, T), the present words
    state: Floats  # (B, 2H), of the bi-LSTM at the mark, to be filled; zero where there is none
    vectors: Callable[[Ids], Floats]  # of words: (n,) -> (n, E)

    @classmethod
    def of(cls, packed: PackedWindows, *, gap_id: int, width: int, vectors: Callable[[Ids], Floats]) -> Self:
        """Find the mark of each row of the batch that was packed."""
        lengths, words = np.empty_like(packed.lengths), np.empty_like(packed.words)
        lengths[packed.order], words[packed.order] = packed.lengths, packed.words
        n_rows, longest = words.shape
        is_mark = np.zeros((n_rows, longest + 1), np.bool_)  # one column more: argmax needs one
        is_mark[:, :longest] = (words == gap_id) & (np.arange(longest) < lengths[:, None])
        ranks = is_mark.argmax(axis=1)
        marked = is_mark[np.arange(n_rows), ranks]
        return cls(marked, ranks, lengths, words, np.zeros((n_rows, width), np.float32), vectors)

    def neighbours(self, reach: int) -> Floats:
        """Vectors of the present words nearest to the marks, by place: (2R, B, E), zero where there is none."""
        places = np.delete(np.arange(-reach, reach + 1), reach)  # from the mark
        wanted = self.ranks + places[:, None]  # (2R, B)
        place, row = np.nonzero((wanted >= 0) & (wanted < self.lengths) & self.marked)
        found = self.vectors(self.words[row, wanted[place, row]])
        neighbours = np.zeros((*wanted.shape, found.shape[1]), np.float32)
        neighbours[place, row] = found
        return neighbours


class NumpyGapReader:
    """See `lmcells.model.gap_reader.GapReader`."""

    def __init__(
        self, of_joint: Floats, of_state: Floats, of_neighbours: Floats, bias: Floats, out: Floats
    ) -> None:
        self._of_joint = of_joint  # (2H, G)
        self._of_state = of_state  # (2H, G)
        self._of_neighbours = of_neighbours  # (2R, E, G)
        self._bias = bias  # (G,)
        self._out = out  # (G, 2H)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take the weights under the names they have in torch; their shapes say how far it reads."""
        hidden = np.asarray(arrays["gap_reader.hidden.weight"], np.float32).T  # (2 * 2H + 2RE, G)
        out = np.asarray(arrays["gap_reader.out.weight"], np.float32).T  # (G, 2H)
        width, embedding_dim = out.shape[1], arrays["context.words.weight"].shape[1]
        joint, state, neighbours = np.split(hidden, [width, 2 * width])
        return cls(
            np.ascontiguousarray(joint),
            np.ascontiguousarray(state),
            np.ascontiguousarray(neighbours.reshape(-1, embedding_dim, hidden.shape[1])),
            np.asarray(arrays["gap_reader.hidden.bias"], np.float32),
            np.ascontiguousarray(out),
        )

    def __call__(self, joint: Floats, surroundings: GapSurroundings) -> Floats:
        """What is added to h_joint: (B, 2H) -> (B, 2H), zero where there is no mark."""
        hidden = matmul_on_one_core(joint, self._of_joint)  # (B, G)
        hidden += matmul_on_one_core(surroundings.state, self._of_state)
        neighbours = surroundings.neighbours(len(self._of_neighbours) // 2)
        for vectors, weight in zip(neighbours, self._of_neighbours, strict=True):
            hidden += matmul_on_one_core(vectors, weight)
        hidden += self._bias
        np.maximum(hidden, 0, out=hidden)
        added = matmul_on_one_core(hidden, self._out)
        return np.where(surroundings.marked[:, None], added, np.float32(0))
