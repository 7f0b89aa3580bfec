"""The gap reader in numpy: what stands next to a gap, read together with all that is around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.one_core import Floats, matmul_on_one_core
from lmcells.pretrained.packed_windows import Ids, Mask

_PLACES = np.array([-2, -1, 1, 2])  # of the neighbours, from the mark


@dataclass(frozen=True, slots=True)
class GapSurroundings:
    """What a reader looks at in each row of a batch; zero where there is nothing."""

    marked: Mask  # (B,)
    state: Floats  # (B, 2H), of the bi-LSTM at the mark
    neighbours: Floats  # (B, 4, E)

    @classmethod
    def none(cls, n_rows: int, *, width: int, embedding_dim: int) -> Self:
        """Rows without a mark, to be filled."""
        return cls(
            np.zeros(n_rows, np.bool_),
            np.zeros((n_rows, width), np.float32),
            np.zeros((n_rows, _PLACES.size, embedding_dim), np.float32),
        )


def neighbour_ranks(ranks: Ids, lengths: Ids) -> tuple[Ids, Mask]:
    """Ranks of the neighbours of a mark among the present words, and whether they are there: (n,) -> (n, 4) each."""
    wanted = ranks[:, None] + _PLACES
    return wanted, (wanted >= 0) & (wanted < lengths[:, None])


class NumpyGapReader:
    """See `lmcells.model.gap_reader.GapReader`."""

    def __init__(
        self, of_joint: Floats, of_state: Floats, of_neighbours: Floats, bias: Floats, out: Floats
    ) -> None:
        self._of_joint = of_joint  # (2H, G)
        self._of_state = of_state  # (2H, G)
        self._of_neighbours = of_neighbours  # (4, E, G)
        self._bias = bias  # (G,)
        self._out = out  # (G, 2H)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take the weights under the names they have in torch."""
        hidden = np.asarray(arrays["gap_reader.hidden.weight"], np.float32).T  # (2 * 2H + 4E, G)
        out = np.asarray(arrays["gap_reader.out.weight"], np.float32).T  # (G, 2H)
        width = out.shape[1]
        joint, state, neighbours = np.split(hidden, [width, 2 * width])
        return cls(
            np.ascontiguousarray(joint),
            np.ascontiguousarray(state),
            np.ascontiguousarray(neighbours.reshape(_PLACES.size, -1, hidden.shape[1])),
            np.asarray(arrays["gap_reader.hidden.bias"], np.float32),
            np.ascontiguousarray(out),
        )

    def __call__(self, joint: Floats, surroundings: GapSurroundings) -> Floats:
        """What is added to h_joint: (B, 2H) -> (B, 2H), zero where there is no mark."""
        hidden = matmul_on_one_core(joint, self._of_joint)  # (B, G)
        hidden += matmul_on_one_core(surroundings.state, self._of_state)
        for place, weight in enumerate(self._of_neighbours):
            hidden += matmul_on_one_core(surroundings.neighbours[:, place], weight)
        hidden += self._bias
        np.maximum(hidden, 0, out=hidden)
        added = matmul_on_one_core(hidden, self._out)
        return np.where(surroundings.marked[:, None], added, np.float32(0))
