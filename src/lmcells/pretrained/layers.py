"""The gap reader in numpy: what stands next to a gap, read together with all that is around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

# Matrix products in pieces so small that OpenBLAS computes each on one core.
#
# It takes threads for products of more than 2^18 multiplications, and its threads wait for each other by spinning: where
# another process wants a core too, that was measured to make the network six times slower. Cores are better used by
# running several batches, each on its own.


Floats = npt.NDArray[np.float32]

_MOST = 1 << 18  # multiplications in one product: OpenBLAS' SMP_THRESHOLD_MIN * GEMM_MULTITHREAD_THRESHOLD


def rows_on_one_core(width: int, out: int) -> int:
    """How many rows (n, width) @ (width, out) may have."""
    return max(1, _MOST // max(1, width * out))


def matmul_on_one_core(left: npt.NDArray[Any], right: Floats) -> Floats:
    """(n, k), (..., k, m) -> (..., n, m)."""
    rows = rows_on_one_core(*right.shape[-2:])
    out = np.empty((*right.shape[:-2], left.shape[0], right.shape[-1]), np.float32)
    for first in range(0, left.shape[0], rows):
        piece = slice(first, first + rows)
        np.matmul(left[piece], right, out=out[..., piece, :])
    return out


# The present words of a batch of windows, without the holes.


Ids = npt.NDArray[np.integer]
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


# The bidirectional LSTM of a trained model in numpy: both directions, a block of rows, one step after another.
#
# Four things make it fast. A word's input to the gates is looked up, not computed: it is projected when the word
# is first met. All gates go through one tanh, because sigmoid(x) = (tanh(x / 2) + 1) / 2 and the halves are in the
# weights. Each gate is one contiguous block, so that numpy runs over it in one go. Rows are sorted by length, and a
# block of `block_rows` is small enough for what a step touches to stay in the cache, and its products on one core.


Array = npt.NDArray[Any]

_TORCH_TO_OURS = [0, 1, 3, 2]  # torch's input, forget, cell, output -> the three sigmoids first
_BLOCK = 16  # words that are projected together: always the same, since the last digit depends on how many there are
_SCALE = np.array([0.5, 0.5, 0.5, 1.0], np.float32)  # x / 2 for the sigmoids


class NumpyLstm:
    """Runs over the words of a table, each joined with a vector of its row.

    States come out doubled (`STATE_SCALE` times too large): the half of the output gate's sigmoid is left to
    whoever reads them, and for the recurrence it is in the weights.
    """

    STATE_SCALE = 2.0

    def __init__(
        self, words: Array, *, of_word: Floats, of_row: Floats, recurrent: Floats, bias: Floats
    ) -> None:
        self._words = words  # (V, E), of any float type
        self._of_word = of_word  # (2, E, 4H)
        self._of_row = of_row  # (2, E, 4H)
        self._recurrent = recurrent  # (4, 2, H, H): gate, direction, from, to
        self._bias = bias  # (2, 1, 4H)
        # Memory is taken only for the words that are met, 2 x 4H numbers each.
        self._projected = np.empty((2, words.shape[0], of_word.shape[-1]), np.float32)
        self._met = np.zeros(words.shape[0], np.bool_)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], *, words: Array) -> Self:
        """Take the trained weights, under torch's names, and put them in the order the steps want."""
        width = words.shape[1]
        hidden_dim = arrays["hidden"].shape[-1]
        inputs = _ordered(arrays["input"])  # (2, 4, H, 2E)
        hidden = _ordered(arrays["hidden"]) / cls.STATE_SCALE  # (2, 4, H, H)
        bias = _ordered(_float32(arrays["input_bias"]) + _float32(arrays["hidden_bias"]))  # (2, 4, H)
        by_input = inputs.reshape(2, 4 * hidden_dim, 2 * width).transpose(0, 2, 1)  # (2, 2E, 4H)
        return cls(
            words,
            of_word=np.ascontiguousarray(by_input[:, :width]),
            of_row=np.ascontiguousarray(by_input[:, width:]),
            recurrent=np.ascontiguousarray(hidden.transpose(1, 0, 3, 2), np.float32),
            bias=bias.reshape(2, 1, 4 * hidden_dim),
        )

    @property
    def block_rows(self) -> int:
        """How many rows to give to `run` at a time."""
        return min(128, rows_on_one_core(*self._recurrent.shape[-2:]))

    def project(self, vectors: npt.NDArray[Any]) -> Floats:
        """What words of these vectors put into the gates: (n, E) -> (2, n, 4H)."""
        return matmul_on_one_core(_float32(vectors), self._of_word)

    def run(self, words: Ids, vectors: Floats, lengths: Ids, unknown: Floats | None = None) -> Floats:
        """States of each step: word ids (T, 2, B), vectors (B, E), lengths (B,) -> (T, 2, B, H).

        `words[t]` is what the two directions read at step t. Rows come longest first; beyond the end of a row
        its words change nothing and its states are zero. Ids beyond the table are of words in `unknown`, projected.
        """
        strangers = [] if unknown is None else self._strangers(words, lengths, unknown)
        ids = self._rows_of(words if unknown is None else np.where(words < len(self._words), words, 0))
        n_steps, _, n_rows = ids.shape
        hidden_dim = self._recurrent.shape[-1]
        states = np.zeros((n_steps, 2, n_rows, hidden_dim), np.float32)
        cells = np.zeros((2, n_rows, hidden_dim), np.float32)
        of_rows = matmul_on_one_core(vectors, self._of_row)  # (B, E), (2, E, 4H) -> (2, B, 4H)
        of_rows += self._bias
        table = self._projected.reshape(-1, 4 * hidden_dim)  # (2V, 4H)
        memory = np.empty((3, 8 * n_rows * hidden_dim), np.float32)
        going = np.searchsorted(-lengths, -np.arange(n_steps), side="left").tolist()  # rows longer than t
        n = -1
        for step in range(n_steps):
            if going[step] != n:
                n = going[step]
                inputs, gates, squashed = (_view(part, n, hidden_dim) for part in memory)
                inputs = inputs.reshape(2, n, 4 * hidden_dim)
                inputs_by_gate = inputs.reshape(2, n, 4, hidden_dim).transpose(2, 0, 1, 3)  # (4, 2, n, H)
                squashed = squashed[0]  # (2, n, H)
                sigmoids, (enter, keep, leave, candidate) = gates[:3], gates
                cell, of_row = cells[:, :n], of_rows[:, :n]
            table.take(ids[step, :, :n], axis=0, out=inputs, mode="clip")  # "raise" would copy
            if strangers:
                direction, row, projected = strangers[step]
                inputs[direction, row] = projected
            inputs += of_row
            if step == 0:
                np.tanh(inputs_by_gate, out=gates)
            else:
                np.matmul(states[step - 1, :, :n], self._recurrent, out=gates)  # (2, n, H) -> (4, 2, n, H)
                gates += inputs_by_gate
                np.tanh(gates, out=gates)
            sigmoids += 1  # now twice the sigmoids
            cell *= keep
            candidate *= enter
            cell += candidate
            cell *= 0.5
            np.tanh(cell, out=squashed)
            np.multiply(leave, squashed, out=states[step, :, :n])
        return states

    def _strangers(self, words: Ids, lengths: Ids, unknown: Floats) -> list[tuple[Ids, Ids, Floats]]:
        """Where words that the table lacks are read in each step, direction and row, and what they put in."""
        n_steps, _, n_rows = words.shape
        read = words.ravel()
        at = np.flatnonzero(read >= len(self._words))
        step, direction, row = at // (2 * n_rows), at // n_rows % 2, at % n_rows
        within = np.flatnonzero(step < lengths[row])
        if not within.size:
            return []
        step, direction, row = step[within], direction[within], row[within]
        projected = unknown[direction, read[at[within]] - len(self._words)]  # (n, 4H)
        cuts = np.searchsorted(step, np.arange(n_steps + 1)).tolist()
        return [
            (direction[first:last], row[first:last], projected[first:last]) for first, last in pairwise(cuts)
        ]

    def _rows_of(self, words: Ids) -> Ids:
        """Rows of the table of projections, after projecting those of the words that were not met before."""
        ids = words.astype(np.intp)  # a copy
        unmet = ids[~self._met[ids]]
        for block in np.unique(unmet // _BLOCK).tolist():
            rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
            self._projected[:, rows] = self.project(self._words[rows])
            self._met[rows] = True
        ids[:, 1] += self._words.shape[0]  # the second half of the table is the second direction's
        return ids


def _view(memory: Floats, n_rows: int, hidden_dim: int) -> Floats:
    return memory[: 8 * n_rows * hidden_dim].reshape(4, 2, n_rows, hidden_dim)


def _ordered(weights: Array) -> Floats:
    """(2, 4H, ...) -> (2, 4, H, ...), gates in our order and scaled for their shared tanh."""
    by_gate = _float32(weights).reshape(2, 4, -1, *weights.shape[2:])[:, _TORCH_TO_OURS]
    return by_gate * _SCALE.reshape(1, 4, *[1] * (by_gate.ndim - 2))


def _float32(array: Array) -> Floats:
    return np.asarray(array, np.float32)


# Isotropic Gaussians in numpy, and the heads that make them from a hidden state.


@dataclass(frozen=True, slots=True)
class NumpyGaussian:
    """N(mean, v I), one or many; see `lmcells.model.Gaussian`."""

    mean: Floats  # (..., d)
    log_variance: Floats  # (...)


class NumpyHeads:
    """Two linear heads, mean (d) and log-variance (1), as one product."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self._weight = weight  # (H, d + 1)
        self._bias = bias  # (d + 1,)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take `heads.mean` and `heads.log_variance`, weight and bias each."""
        weight, bias = (
            np.concatenate(
                [np.asarray(arrays[f"heads.{head}.{part}"], np.float32) for head in ("mean", "log_variance")]
            )
            for part in ("weight", "bias")
        )
        return cls(np.ascontiguousarray(weight.T), bias)

    def __call__(self, hidden: Floats) -> NumpyGaussian:
        """(..., H) -> a Gaussian each."""
        out = matmul_on_one_core(hidden.reshape(-1, hidden.shape[-1]), self._weight)
        out += self._bias
        out = out.reshape(*hidden.shape[:-1], self._bias.size)  # (..., d + 1)
        return NumpyGaussian(out[..., :-1], out[..., -1])


# The gap reader in numpy: what stands next to a gap, read together with all that is around it.


@dataclass(frozen=True, slots=True)
class SpanSurroundings:
    """Where the marks of a batch are and what stands around them, as far as a reader wants to look."""

    marked: Mask  # (B,)
    ranks: Ids  # (B,) of the mark among the present words
    lengths: Ids  # (B,)
    words: Ids  # (B, T), the present words
    state: Floats  # (B, 2H), of the bi-LSTM at the mark, to be filled; zero where there is none
    vectors: Callable[[Ids], Floats]  # of words: (n,) -> (n, E)

    @classmethod
    def of(cls, packed: PackedWindows, *, mask_id: int, width: int, vectors: Callable[[Ids], Floats]) -> Self:
        """Find the mark of each row of the batch that was packed."""
        lengths, words = np.empty_like(packed.lengths), np.empty_like(packed.words)
        lengths[packed.order], words[packed.order] = packed.lengths, packed.words
        n_rows, longest = words.shape
        is_mask = np.zeros((n_rows, longest + 1), np.bool_)  # one column more: argmax needs one
        is_mask[:, :longest] = (words == mask_id) & (np.arange(longest) < lengths[:, None])
        ranks = is_mask.argmax(axis=1)
        marked = is_mask[np.arange(n_rows), ranks]
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


class NumpyMaskedSpanReader:
    """See `lmcells.model.masked_span_reader.MaskedSpanReader`."""

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
        hidden = np.asarray(arrays["masked_span_reader.hidden.weight"], np.float32).T  # (2 * 2H + 2RE, G)
        out = np.asarray(arrays["masked_span_reader.out.weight"], np.float32).T  # (G, 2H)
        width, embedding_dim = out.shape[1], arrays["context.words.weight"].shape[1]
        joint, state, neighbours = np.split(hidden, [width, 2 * width])
        return cls(
            np.ascontiguousarray(joint),
            np.ascontiguousarray(state),
            np.ascontiguousarray(neighbours.reshape(-1, embedding_dim, hidden.shape[1])),
            np.asarray(arrays["masked_span_reader.hidden.bias"], np.float32),
            np.ascontiguousarray(out),
        )

    def __call__(self, joint: Floats, surroundings: SpanSurroundings) -> Floats:
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
