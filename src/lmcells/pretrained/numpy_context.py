"""From the ids of a window to one summary of its context, in numpy: the bi-LSTM and the attention over it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.numpy_gap_reader import GapSurroundings
from lmcells.pretrained.numpy_lstm import Ids, NumpyLstm
from lmcells.pretrained.one_core import Floats
from lmcells.pretrained.packed_windows import Mask, PackedWindows


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """What an encoder makes of the context of each row."""

    attention: Floats  # (B, 2S) weights of the present words' states, as the query asks
    mean: Floats  # (B, 2H), their weighted mean
    gaps: GapSurroundings | None  # where gaps are looked for


class NumpyContextEncoder:
    """`lmcells.model.context.ContextEncoder` and `lmcells.model.attention.attend` in one."""

    def __init__(self, words: npt.NDArray[Any], lstm: NumpyLstm, *, gap_id: int | None = None) -> None:
        self._words = words  # (n_read, E)
        self._lstm = lstm
        self._gap_id = gap_id  # of the mark whose surroundings are wanted

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, gap_id: int | None = None) -> Self:
        """Take the weights under the names they have in the encoder of torch."""
        words = arrays["words.weight"]
        of_lstm = {
            name.removeprefix("lstm."): array for name, array in arrays.items() if name.startswith("lstm.")
        }
        return cls(words, NumpyLstm.from_arrays(of_lstm, words=words), gap_id=gap_id)

    def summarise(
        self,
        center: Ids,
        context: Ids,
        context_mask: Mask,
        *,
        center_mask: Mask | None,
        query: Floats,
        unknown: Floats | None = None,
    ) -> ContextSummary:
        """Read the present words of each row.

        Ids of the context beyond the table are rows of `unknown` (n, E).
        """
        self._require_ids(center, context[context_mask], n_unknown=0 if unknown is None else len(unknown))
        projected = self._lstm.project(unknown) if unknown is not None and len(unknown) else None
        vectors = np.asarray(self._words[center], np.float32)  # (B, E)
        if center_mask is not None:
            vectors = np.where(center_mask[:, None], vectors, np.float32(0))
        packed = PackedWindows.of(context, context_mask)
        attention = np.zeros(packed.words.shape, np.float32)  # (B, T), in packed order
        summary = np.zeros((center.size, query.shape[-1]), np.float32)  # (B, 2H), in the order of the batch
        gaps = None
        if self._gap_id is not None:
            gaps = GapSurroundings.of(
                packed,
                gap_id=self._gap_id,
                width=query.shape[-1],
                vectors=partial(self._vectors, unknown=unknown),
            )
        n_block = self._lstm.block_rows
        for first in range(0, center.size, n_block):
            block = slice(first, first + n_block)
            rows, lengths = packed.order[block], packed.lengths[block]
            longest = lengths[0]
            if longest == 0:
                break  # rows come longest first: all others are without context too
            words = packed.words[block, :longest]
            states, mirrored = self._states(words, lengths, vectors[rows], projected)
            attention[block, :longest], summary[rows] = _attend(states, mirrored, lengths, query[rows])
            if gaps is not None:
                _keep_states(gaps, rows, states)
        return ContextSummary(packed.unpack(attention, width=context.shape[1]), summary, gaps)

    def _states(
        self, words: Ids, lengths: Ids, vectors: Floats, unknown: Floats | None
    ) -> tuple[Floats, Ids]:
        """One block of packed rows: (B, T), (B,), (B, E) -> (2, B, T, H), (B, T).

        States come in the order in which each direction reads, and with them each place in the other direction.
        """
        longest = words.shape[1]
        mirrored = np.maximum(lengths[:, None] - 1 - np.arange(longest), 0)  # (B, T)
        backward = np.take_along_axis(words, mirrored, axis=1)
        read = np.stack([words.T, backward.T], axis=1)  # (T, 2, B)
        states = self._lstm.run(read, vectors, lengths, unknown)  # (T, 2, B, H)
        return states.transpose(1, 2, 0, 3), mirrored

    def _vectors(self, ids: Ids, *, unknown: Floats | None) -> Floats:
        """The vectors of words, (n,) -> (n, E); ids beyond the table are rows of `unknown`."""
        n_known = len(self._words)
        is_known = ids < n_known
        vectors = np.asarray(self._words[np.where(is_known, ids, 0)], np.float32)
        if unknown is not None and not is_known.all():
            vectors[~is_known] = unknown[ids[~is_known] - n_known]
        return vectors

    def _require_ids(self, center: Ids, present: Ids, *, n_unknown: int) -> None:
        n_known = self._words.shape[0]
        for name, ids, size in (("center", center, n_known), ("context", present, n_known + n_unknown)):
            if ids.size and not (ids.min() >= 0 and ids.max() < size):
                raise ValueError(
                    f"{name} holds ids from {ids.min()} to {ids.max()}; allowed: 0 to {size - 1}."
                )


def _keep_states(gaps: GapSurroundings, rows: Ids, states: Floats) -> None:
    """Fill in the states at the marks of one block, (2, B, T, H), whose rows are these of the batch."""
    marked = np.flatnonzero(gaps.marked[rows])
    at = rows[marked]
    ranks, lengths = gaps.ranks[at], gaps.lengths[at]
    both = np.concatenate([states[0, marked, ranks], states[1, marked, lengths - 1 - ranks]], axis=1)
    gaps.state[at] = both / np.float32(NumpyLstm.STATE_SCALE)


def _attend(states: Floats, mirrored: Ids, lengths: Ids, query: Floats) -> tuple[Floats, Floats]:
    """Weights and weighted mean of a block's states: (2, B, T, H), (B, T), (B,), (B, 2H) -> (B, T), (B, 2H)."""
    n_rows, longest = mirrored.shape
    by_direction = query.reshape(n_rows, 2, -1, 1).transpose(1, 0, 2, 3)  # (2, B, H, 1)
    scores = np.matmul(states, by_direction)[..., 0]  # (2, B, T)
    joined = scores[0] + np.take_along_axis(scores[1], mirrored, axis=1)  # (B, T)
    joined *= 1 / (NumpyLstm.STATE_SCALE * math.sqrt(query.shape[-1]))
    weights = _softmax(joined, np.arange(longest) < lengths[:, None])

    both = np.stack([weights, np.take_along_axis(weights, mirrored, axis=1)])  # states past an end are zero
    means = np.matmul(both[:, :, None], states)[:, :, 0]  # (2, B, 1, T), (2, B, T, H) -> (2, B, H)
    means *= 1 / NumpyLstm.STATE_SCALE
    return weights, means.transpose(1, 0, 2).reshape(n_rows, -1)  # (B, 2H)


def _softmax(scores: Floats, mask: Mask) -> Floats:
    """Over the last axis, zero where the mask is false; a row that is false throughout is zero."""
    scores = np.where(mask, scores, np.float32(-np.inf))
    highest = scores.max(axis=-1, keepdims=True)
    np.maximum(highest, np.finfo(np.float32).min, out=highest)  # -inf - -inf is no number
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    softmax: Floats = weights / np.maximum(total, np.finfo(np.float32).tiny)
    return softmax
