"""The networks of a trained model in numpy: q(z | w, m, c) and the prior.

Each takes the tensors of a model folder, and must equal its counterpart in `lmcells.model`, named in its docstring,
within 1e-4, in float32 and without dropout; `tests/pretrained/test_numpy_network.py` checks it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.files import under
from lmcells.model.config import ModelConfig
from lmcells.pretrained.layers import (
    Arrays,
    Floats,
    Ids,
    Mask,
    NumpyGaussian,
    NumpyHeads,
    NumpyLstm,
    NumpyMaskedSpanReader,
    PackedWindows,
    float32,
    matmul_on_one_core,
)

Gate = float | npt.NDArray[np.floating]

NO_WORD = "a phrase needs at least one word of the vocabulary; found none."


@dataclass(frozen=True, slots=True)
class NumpyPosterior:
    """q(z | w, m, c), one per row, and the weights behind it; see `lmcells.model.Posterior`."""

    mean: Floats  # (B, d)
    log_variance: Floats  # (B,)
    gate: Floats  # (B,) weight of the metadata
    attention: Floats  # (B, 2S) weights of the context positions, zero where absent


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """What is read around each center; masks are true where a word is present. See `lmcells.model.Windows`."""

    center: Ids  # (B,)
    center_mask: Mask  # (B,)
    context: Ids  # (B, 2S), one more if a masked span has an id
    context_mask: Mask  # like context
    # (n, E) of out-of-vocabulary words, whose ids in the context follow the model's
    unknown: Floats | None = None

    def rows(self, rows: Ids) -> Self:
        """Return copies of some of the windows."""
        context = self.context[rows], self.context_mask[rows]
        return type(self)(self.center[rows], self.center_mask[rows], *context, self.unknown)


class _Context(NamedTuple):
    """The context of each row as the LSTM and the attention read it."""

    attention: Floats  # (B, 2S)
    mean: Floats  # (B, 2H), the states weighted by the attention
    words: PackedWindows
    is_masked: Mask  # (B,) whether a masked span is among the words
    mask_ranks: Ids  # (B,) its index among the present words
    mask_states: Floats  # (B, 2H), of the LSTM there; zero where there is none


class NumpyVariationalNetwork:
    """q(z | w, m, c) of an LMC, BSG or MBSGE; see `lmcells.model.networks` and `lmcells.model.models`.

    network = NumpyVariationalNetwork(arrays, config)
    cells = network.posterior(ReadWindows(center, center_mask, context, context_mask), metadata)
    cells.mean, cells.log_variance  # (B, d), (B,)
    """

    def __init__(self, arrays: Arrays, config: ModelConfig) -> None:
        own = under("variational.", arrays)
        self._config = config
        self._mask_id = config.mask_id
        self._words = own["context.words.weight"]  # (n_read, E)
        self._lstm = NumpyLstm(under("context.lstm.", own), self._words)
        self._heads = NumpyHeads(own)
        self._read_masked_span = None
        if config.kind == "lmc":
            self._metadata = own["metadata.weight"]  # (M, 2H)
            self._gate_weight = float32(own["gate.weight"]).T  # (4H, 2)
            self._gate_bias = float32(own["gate.bias"])
            if config.masked_span_dim:
                self._read_masked_span = NumpyMaskedSpanReader(own)
        else:
            self._query = float32(own["query"])  # (2H,)

    def posterior(
        self, windows: ReadWindows, metadata: Ids | None, *, gate: Gate | None = None
    ) -> NumpyPosterior:
        """Return the cell of each center in its window: B windows, (B,) -> B cells.

        Metadata below 0, or None, is null. `gate`, a number or (B,), replaces the learnt weight of the metadata; BSG
        and MBSGE have none and ignore it.
        """
        self._check(windows, metadata)
        cells = self._cells(windows, metadata, gate)
        if self._config.kind == "mbsge" and metadata is not None:
            # The section as the center; the two posteriors are averaged.
            rows = np.flatnonzero(metadata >= 0)
            sections = metadata[rows] + self._config.section_offset
            with_section = replace(
                windows.rows(rows), center=sections, center_mask=np.ones(rows.size, np.bool_)
            )
            of_section = self._cells(with_section, None, None)
            for name in ("mean", "attention"):
                values = getattr(cells, name)
                values[rows] = (values[rows] + getattr(of_section, name)) / 2
            both = np.logaddexp(cells.log_variance[rows], of_section.log_variance)
            cells.log_variance[rows] = both - np.float32(np.log(2))  # log of the mean variance
        return cells

    def _cells(self, windows: ReadWindows, metadata: Ids | None, gate: Gate | None) -> NumpyPosterior:
        n_rows = windows.center.size
        if self._config.kind != "lmc":  # no gate; the query is a parameter
            query = np.broadcast_to(self._query, (n_rows, self._query.size))
            context = self._read_context(windows, query)
            cell, no_gate = self._heads(context.mean), np.zeros(n_rows, np.float32)
            return NumpyPosterior(cell.mean, cell.log_variance, no_gate, context.attention)
        metadata = np.full(n_rows, -1) if metadata is None else metadata
        known = metadata >= 0  # (B,)
        section = np.zeros((n_rows, self._metadata.shape[1]), np.float32)  # E_m: (B, 2H)
        section[known] = self._metadata[metadata[known]]
        context = self._read_context(windows, section)
        weight = self._learnt_gate(section, context.mean) if gate is None else _as_weights(gate, n_rows)
        weight = np.where(known, weight, np.float32(0))
        joint = context.mean + weight[:, None] * (section - context.mean)  # (B, 2H)
        if self._read_masked_span is not None:
            neighbours = self._neighbours(context, windows.unknown, reach=self._read_masked_span.reach)
            added = self._read_masked_span(joint, context.mask_states, neighbours)
            joint += np.where(context.is_masked[:, None], added, np.float32(0))
        cell = self._heads(joint)
        return NumpyPosterior(cell.mean, cell.log_variance, weight, context.attention)

    def _learnt_gate(self, section: Floats, summary: Floats) -> Floats:
        """p_m: (B, 2H), (B, 2H) -> (B,)."""
        both = np.concatenate([section, summary], axis=1)  # (B, 4H)
        scores = np.tanh(matmul_on_one_core(both, self._gate_weight) + self._gate_bias)  # (B, 2)
        learnt: Floats = 1 / (1 + np.exp(scores[:, 1] - scores[:, 0]))  # the softmax of two scores
        return learnt

    def _read_context(self, windows: ReadWindows, query: Floats) -> _Context:
        """Run the LSTM over the present words of each row, and attend over its states."""
        unknown = windows.unknown
        projected = self._lstm.project(unknown) if unknown is not None and len(unknown) else None
        vectors = float32(self._words[windows.center])  # (B, E)
        vectors = np.where(windows.center_mask[:, None], vectors, np.float32(0))
        packed = PackedWindows(windows.context, windows.context_mask)
        is_masked, ranks = self._find_masked_spans(packed)
        attention = np.zeros(packed.words.shape, np.float32)  # (B, T)
        summary, mask_states = np.zeros((2, *query.shape), np.float32)  # (B, 2H) each
        by_length = np.argsort(-packed.lengths, kind="stable")
        for first in range(0, windows.center.size, self._lstm.block_rows):
            rows = by_length[first : first + self._lstm.block_rows]
            lengths = packed.lengths[rows]
            longest = lengths[0]
            if longest == 0:
                break  # the remaining rows are empty too
            words = packed.words[rows, :longest]  # (b, T)
            mirrored = np.maximum(lengths[:, None] - 1 - np.arange(longest), 0)  # positions from the end
            backward = np.take_along_axis(words, mirrored, axis=1)
            read = np.stack([words.T, backward.T], axis=1)  # (T, 2, b)
            states = self._lstm.run(read, vectors[rows], lengths, projected)  # as each direction reads
            states = states.transpose(1, 2, 0, 3)  # (T, 2, b, H) -> (2, b, T, H)
            attention[rows, :longest], summary[rows] = _attend(states, mirrored, lengths, query[rows])
            masked = np.flatnonzero(is_masked[rows])
            at, back = ranks[rows[masked]], lengths[masked] - 1 - ranks[rows[masked]]
            both = np.concatenate([states[0, masked, at], states[1, masked, back]], axis=1)
            mask_states[rows[masked]] = both / np.float32(NumpyLstm.STATE_SCALE)
        unpacked = packed.unpack(attention, width=windows.context.shape[1])
        return _Context(unpacked, summary, packed, is_masked, ranks, mask_states)

    def _find_masked_spans(self, packed: PackedWindows) -> tuple[Mask, Ids]:
        """Return whether a masked span is among the words of each row, and where: -> (B,), (B,)."""
        n_rows, longest = packed.words.shape
        is_mask = np.zeros((n_rows, longest + 1), np.bool_)  # one column more: argmax needs one
        if self._read_masked_span is not None:
            present = np.arange(longest) < packed.lengths[:, None]
            is_mask[:, :longest] = (packed.words == self._mask_id) & present
        ranks = is_mask.argmax(axis=1)
        return is_mask[np.arange(n_rows), ranks], ranks

    def _neighbours(self, context: _Context, unknown: Floats | None, *, reach: int) -> Floats:
        """Return the vectors of the words next to the masked spans, by position: (2R, B, E), zero where none is."""
        offsets = np.delete(np.arange(-reach, reach + 1), reach)  # from the masked span
        wanted = context.mask_ranks + offsets[:, None]  # (2R, B)
        is_there = (wanted >= 0) & (wanted < context.words.lengths) & context.is_masked
        position, row = np.nonzero(is_there)
        ids = context.words.words[row, wanted[position, row]]
        is_known = ids < len(self._words)
        vectors = float32(self._words[np.where(is_known, ids, 0)])
        if unknown is not None and not is_known.all():
            vectors[~is_known] = unknown[ids[~is_known] - len(self._words)]
        neighbours = np.zeros((*wanted.shape, vectors.shape[1]), np.float32)
        neighbours[position, row] = vectors
        return neighbours

    def _check(self, windows: ReadWindows, metadata: Ids | None) -> None:
        center, context, unknown = windows.center, windows.context, windows.unknown
        for name, values, shape in (
            ("metadata", metadata, center.shape),
            ("center_mask", windows.center_mask, center.shape),
            ("context_mask", windows.context_mask, context.shape),
            ("center", center, context.shape[:1]),
        ):
            if values is not None and values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}; the other arguments need {shape}.")
            if values is not None and name.endswith("mask") and values.dtype != np.bool_:
                raise ValueError(f"{name} has dtype {values.dtype}; a mask needs bool, true where present.")
        n_metadata = self._config.n_metadata
        highest = -1 if metadata is None or self._config.kind == "bsg" else metadata.max(initial=-1)
        if highest >= n_metadata > 0:
            raise ValueError(f"metadata holds id {highest}; allowed: below {n_metadata}.")
        n_known, n_unknown = len(self._words), 0 if unknown is None else len(unknown)
        present = context[windows.context_mask]
        for name, ids, size in (("center", center, n_known), ("context", present, n_known + n_unknown)):
            if ids.size and not (ids.min() >= 0 and ids.max() < size):
                raise ValueError(
                    f"{name} holds ids from {ids.min()} to {ids.max()}; allowed: 0 to {size - 1}."
                )


def _attend(states: Floats, mirrored: Ids, lengths: Ids, query: Floats) -> tuple[Floats, Floats]:
    """Attend over a block's states, scaled: (2, B, T, H), (B, T), (B,), (B, 2H) -> weights (B, T), mean (B, 2H)."""
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
    """Softmax over the last axis, zero where the mask is false."""
    scores = np.where(mask, scores, np.float32(-np.inf))
    highest = scores.max(axis=-1, keepdims=True)
    np.maximum(highest, np.finfo(np.float32).min, out=highest)  # -inf - -inf is not a number
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    softmax: Floats = weights / np.maximum(total, np.finfo(np.float32).tiny)
    return softmax


def _as_weights(gate: Gate, n_rows: int) -> Floats:
    weights = np.asarray(gate, np.float32)
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(f"gate is {gate!r}; allowed: weights from 0 (context only) to 1 (metadata only).")
    return np.broadcast_to(weights, (n_rows,))


class NumpyModelNetwork:
    """p(z | w, m) of the LMC: h = ReLU(W [R_w ; R_m] + b), then the heads. Null metadata is R_m = 0.

    See `lmcells.model.networks.ModelNetwork`.

    prior = NumpyModelNetwork(arrays)
    prior(words, metadata)                            # paired ids of one shape
    prior.of_vectors(prior.phrase(words), metadata)   # a phrase: the mean of its words' vectors
    """

    def __init__(self, arrays: Arrays) -> None:
        own = under("prior.", arrays)
        self._words, weight = own["words.weight"], float32(own["hidden.weight"]).T  # (V, E), (2E, H)
        width = self._words.shape[1]
        of_metadata = float32(own["metadata.weight"]) @ weight[width:]  # (M, H), projected once
        with_null = np.vstack([of_metadata, np.zeros_like(of_metadata[:1])])
        self._of_metadata = with_null + float32(own["hidden.bias"])  # (M + 1, H), null metadata last
        self._of_word = weight[:width].copy()  # (E, H)
        self._heads = NumpyHeads(own)

    def __call__(self, words: Ids, metadata: Ids | None) -> NumpyGaussian:
        """Return a Gaussian for each pair of ids, both of one shape; metadata below 0, or None, is null."""
        return self.of_vectors(float32(self._words[words]), metadata)

    def of_vectors(self, vectors: Floats, metadata: Ids | None) -> NumpyGaussian:
        """Do the same for word vectors (..., E), such as a phrase's; leading axes broadcast with metadata's."""
        null = np.asarray(-1)
        # Row -1 is the last one, and the last one is null metadata.
        of_metadata = self._of_metadata[null if metadata is None else np.maximum(metadata, null)]  # (..., H)
        hidden = vectors @ self._of_word + of_metadata
        np.maximum(hidden, 0, out=hidden)
        return self._heads(hidden)

    def phrase(self, words: Ids) -> Floats:
        """Return the mean of the vectors of some words: (n,) -> (E,)."""
        if not words.size:
            raise ValueError(NO_WORD)
        mean: Floats = float32(self._words[words]).mean(axis=0)
        return mean


class NumpyWordPrior:
    """p(z | w) of BSG and MBSGE: a table with one Gaussian per id; see `lmcells.model.networks.WordPrior`."""

    def __init__(self, arrays: Arrays) -> None:
        self._mean: npt.NDArray[Any] = arrays["prior.mean.weight"]  # (n_centers, d)
        self._log_variance = arrays["prior.log_variance.weight"][:, 0]  # (n_centers,)

    def __call__(self, words: Ids, metadata: Ids | None = None) -> NumpyGaussian:  # noqa: ARG002
        """Return a Gaussian for each id, whatever its metadata."""
        return NumpyGaussian(float32(self._mean[words]), float32(self._log_variance[words]))

    def phrase(self, words: Ids) -> NumpyGaussian:
        """Return the Gaussian of a phrase: its words' means and variances, averaged."""
        if not words.size:
            raise ValueError(NO_WORD)
        each = self(words)
        return NumpyGaussian(each.mean.mean(axis=0), np.log(np.exp(each.log_variance).mean(axis=0)))
