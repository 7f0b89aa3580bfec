"""Layers of the networks in numpy: packed windows, the bidirectional LSTM, Gaussian heads, the masked-span reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]

# Multiplications in one product that OpenBLAS computes on one core: SMP_THRESHOLD_MIN * GEMM_MULTITHREAD_THRESHOLD.
# Beyond that its threads wait for each other by spinning, which made the network six times slower on a busy core. Cores
# are better used by several batches at a time.
_MOST = 1 << 18
_PIECE_ROWS = 8  # fewer are slower, more are less exact


def rows_on_one_core(width: int, out: int) -> int:
    """Return how many rows (n, width) @ (width, out) may have."""
    return max(1, _MOST // max(1, width * out))


def matmul_on_one_core(left: Array, right: Floats) -> Floats:
    """Multiply in pieces: (n, k), (..., k, m) -> (..., n, m)."""
    (n_rows, width), n_columns = left.shape, right.shape[-1]
    columns = min(n_columns, rows_on_one_core(width, min(n_rows, _PIECE_ROWS)))
    rows = rows_on_one_core(width, columns)
    out = np.empty((*right.shape[:-2], n_rows, n_columns), np.float32)
    for first, begin in product(range(0, n_rows, rows), range(0, n_columns, columns)):
        piece, part = slice(first, first + rows), slice(begin, begin + columns)
        np.matmul(left[piece], right[..., part], out=out[..., piece, part])
    return out


def float32(array: Array) -> Floats:
    return np.asarray(array, np.float32)


class PackedWindows:
    """The present words of a batch of windows, moved to the left; T is the length of the longest row."""

    def __init__(self, context: Ids, mask: Mask) -> None:
        """Pack `context` (B, 2S) where `mask` is true."""
        self.lengths = mask.sum(axis=1)  # (B,)
        self._rows, self._columns = np.nonzero(mask)
        self._ranks = np.arange(self._rows.size) - (np.cumsum(self.lengths) - self.lengths)[self._rows]
        self.words = np.zeros((len(mask), self.lengths.max(initial=0)), np.intp)  # (B, T), 0 beyond the end
        self.words[self._rows, self._ranks] = context[self._rows, self._columns]

    def unpack(self, values: Floats, *, width: int) -> Floats:
        """Move values of packed words back to the words' columns: (B, T) -> (B, width), 0 in the others."""
        unpacked = np.zeros((len(values), width), np.float32)
        unpacked[self._rows, self._columns] = values[self._rows, self._ranks]
        return unpacked


_TORCH_TO_OURS = [0, 1, 3, 2]  # torch's input, forget, cell, output -> the three sigmoids first
_SCALE = np.array([0.5, 0.5, 0.5, 1.0], np.float32)  # x / 2 for the sigmoids
# Words projected together. Fixed, since the last digit of a product depends on the number of rows.
_BLOCK = 16


class NumpyLstm:
    """The bidirectional LSTM over the words of a table, each concatenated with its row's vector.

    Four things make it fast. A word's input to the gates is projected when the word is first seen, and looked up after
    that. All gates share one tanh, because sigmoid(x) = (tanh(x / 2) + 1) / 2, with the halves folded into the weights.
    Each gate is one contiguous block. A block of `block_rows` is small enough for a step to stay in the cache and for
    its products to run on one core.

    States come out doubled (`STATE_SCALE`): the output gate's factor 1/2 is folded into the recurrent weights, and left
    to whoever reads the states.
    """

    STATE_SCALE = 2.0

    def __init__(self, arrays: Arrays, words: Array) -> None:
        """Take the trained weights under torch's names, and a table (V, E) of any float type."""
        width, hidden_dim = words.shape[1], arrays["hidden"].shape[-1]
        by_input = _ordered(arrays["input"]).reshape(2, 4 * hidden_dim, 2 * width).transpose(0, 2, 1)
        hidden = _ordered(arrays["hidden"]) / self.STATE_SCALE  # (2, 4, H, H)
        bias = _ordered(float32(arrays["input_bias"]) + float32(arrays["hidden_bias"]))  # (2, 4, H)
        self._words = words
        self._of_word = np.ascontiguousarray(by_input[:, :width])  # (2, E, 4H)
        self._of_row = np.ascontiguousarray(by_input[:, width:])  # (2, E, 4H)
        # (4, 2, H, H): gate, direction, from, to
        self._recurrent = np.ascontiguousarray(hidden.transpose(1, 0, 3, 2), np.float32)
        self._bias = bias.reshape(2, 1, 4 * hidden_dim)
        # Memory is used only for words that are seen, 2 x 4H numbers each.
        self._projected = np.empty((2, words.shape[0], 4 * hidden_dim), np.float32)
        self._met = np.zeros(words.shape[0], np.bool_)
        self.block_rows = min(128, rows_on_one_core(hidden_dim, hidden_dim))  # for `run` to take at a time

    def project(self, vectors: Array) -> Floats:
        """Return the gate inputs of words with these vectors, and the bias: (n, E) -> (2, n, 4H)."""
        projected = matmul_on_one_core(float32(vectors), self._of_word)
        projected += self._bias
        return projected

    def run(self, words: Ids, vectors: Floats, lengths: Ids, unknown: Floats | None = None) -> Floats:
        """Return the states of each step: word ids (T, 2, B), vectors (B, E), lengths (B,) -> (T, 2, B, H).

        `words[t]` is what the two directions read at step t. Rows come longest first; beyond the end of a row
        its words change nothing and its states are zero. Ids beyond the table are words of `unknown`, projected.
        """
        n_known = len(self._words)
        unknown_inputs = [] if unknown is None else _unknown_inputs(words, lengths, unknown, n_known)
        ids = self._table_rows(words if unknown is None else np.where(words < n_known, words, 0))
        n_steps, _, n_rows = ids.shape
        hidden_dim = self._recurrent.shape[-1]
        states = np.zeros((n_steps, 2, n_rows, hidden_dim), np.float32)
        cells = np.zeros((2, n_rows, hidden_dim), np.float32)
        # (B, E), (2, E, 4H) -> (2, B, 4H); None if all centers are masked
        of_rows = matmul_on_one_core(vectors, self._of_row) if vectors.any() else None
        table = self._projected.reshape(-1, 4 * hidden_dim)  # (2V, 4H)
        memory = np.empty((3, 8 * n_rows * hidden_dim), np.float32)
        going = np.searchsorted(-lengths, -np.arange(n_steps), side="left").tolist()  # rows longer than t
        n = -1
        for step in range(n_steps):
            if going[step] != n:
                n = going[step]
                inputs, gates, squashed = (
                    part[: 8 * n * hidden_dim].reshape(4, 2, n, hidden_dim) for part in memory
                )
                inputs = inputs.reshape(2, n, 4 * hidden_dim)
                inputs_by_gate = inputs.reshape(2, n, 4, hidden_dim).transpose(2, 0, 1, 3)  # (4, 2, n, H)
                squashed = squashed[0]  # (2, n, H)
                sigmoids, (enter, keep, leave, candidate) = gates[:3], gates
                cell = cells[:, :n]
            table.take(ids[step, :, :n], axis=0, out=inputs, mode="clip")  # "raise" would copy
            if unknown_inputs:
                direction, row, projected = unknown_inputs[step]
                inputs[direction, row] = projected
            if of_rows is not None:
                inputs += of_rows[:, :n]
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

    def _table_rows(self, words: Ids) -> Ids:
        """Return the rows of words in the table of projections, after projecting new words."""
        ids = words.astype(np.intp)  # a copy
        unmet = ids[~self._met[ids]]
        for block in sorted(set((unmet // _BLOCK).tolist())):  # np.unique would import np.ma, which is slow
            rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
            self._projected[:, rows] = self.project(self._words[rows])
            self._met[rows] = True
        ids[:, 1] += self._words.shape[0]  # the second half of the table is the second direction's
        return ids


def _unknown_inputs(words: Ids, lengths: Ids, unknown: Floats, n_known: int) -> list[tuple[Ids, Ids, Floats]]:
    """Return for each step the direction and row of words beyond the table, and their gate inputs."""
    n_steps, _, n_rows = words.shape
    read = words.ravel()
    at = np.flatnonzero(read >= n_known)
    step, direction, row = at // (2 * n_rows), at // n_rows % 2, at % n_rows
    within = np.flatnonzero(step < lengths[row])
    if not within.size:
        return []
    step, direction, row = step[within], direction[within], row[within]
    projected = unknown[direction, read[at[within]] - n_known]  # (n, 4H)
    cuts = np.searchsorted(step, np.arange(n_steps + 1)).tolist()
    return [(direction[first:last], row[first:last], projected[first:last]) for first, last in pairwise(cuts)]


def _ordered(weights: Array) -> Floats:
    """Put the gates in our order and scale them for their shared tanh: (2, 4H, ...) -> (2, 4, H, ...)."""
    by_gate = float32(weights).reshape(2, 4, -1, *weights.shape[2:])[:, _TORCH_TO_OURS]
    return by_gate * _SCALE.reshape(1, 4, *[1] * (by_gate.ndim - 2))


@dataclass(frozen=True, slots=True)
class NumpyGaussian:
    """N(mean, v I), one or many; see `lmcells.model.Gaussian`."""

    mean: Floats  # (..., d)
    log_variance: Floats  # (...)


class NumpyHeads:
    """Two linear heads, mean (d) and log-variance (1), as one product."""

    def __init__(self, arrays: Arrays) -> None:
        """Take `heads.mean` and `heads.log_variance`, weight and bias each."""
        weight, self._bias = (  # (d + 1, H), (d + 1,)
            np.concatenate([float32(arrays[f"heads.{head}.{part}"]) for head in ("mean", "log_variance")])
            for part in ("weight", "bias")
        )
        self._weight = np.ascontiguousarray(weight.T)  # (H, d + 1)

    def __call__(self, hidden: Floats) -> NumpyGaussian:
        """Return a Gaussian for each hidden state (..., H)."""
        out = matmul_on_one_core(hidden.reshape(-1, hidden.shape[-1]), self._weight)
        out += self._bias
        out = out.reshape(*hidden.shape[:-1], self._bias.size)  # (..., d + 1)
        return NumpyGaussian(out[..., :-1], out[..., -1])


class NumpyMaskedSpanReader:
    """Reads the words next to a masked span; see `lmcells.model.networks.MaskedSpanReader`."""

    def __init__(self, arrays: Arrays) -> None:
        """Take the weights of a variational network; their shapes give its reach."""
        hidden = float32(arrays["masked_span_reader.hidden.weight"]).T  # (2 * 2H + 2RE, G)
        out = float32(arrays["masked_span_reader.out.weight"]).T  # (G, 2H)
        width, embedding_dim = out.shape[1], arrays["context.words.weight"].shape[1]
        joint, state, neighbours = np.split(hidden, [width, 2 * width])
        self._of_joint, self._of_state = np.ascontiguousarray(joint), np.ascontiguousarray(state)  # (2H, G)
        by_neighbour = neighbours.reshape(-1, embedding_dim, hidden.shape[1])
        self._of_neighbours = np.ascontiguousarray(by_neighbour)  # (2R, E, G)
        self._bias = float32(arrays["masked_span_reader.hidden.bias"])  # (G,)
        self._out = np.ascontiguousarray(out)
        self.reach = len(self._of_neighbours) // 2

    def __call__(self, joint: Floats, state: Floats, neighbours: Floats) -> Floats:
        """Return what to add to h_joint: (B, 2H), the LSTM's state (B, 2H), (2R, B, E) -> (B, 2H)."""
        hidden = matmul_on_one_core(joint, self._of_joint)  # (B, G)
        hidden += matmul_on_one_core(state, self._of_state)
        for vectors, weight in zip(neighbours, self._of_neighbours, strict=True):
            hidden += matmul_on_one_core(vectors, weight)
        hidden += self._bias
        np.maximum(hidden, 0, out=hidden)
        return matmul_on_one_core(hidden, self._out)
