"""The phrase network of a trained model, without torch; see `lmcells.model.phrases`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.layers import (
    Floats,
    Ids,
    Mask,
    NumpyGaussian,
    NumpyHeads,
    NumpyLstm,
    NumpyMaskedSpanReader,
    PackedWindows,
    SpanSurroundings,
    matmul_on_one_core,
)
from lmcells.pretrained.sizes import ModelSizes

# From the ids of a window to one summary of its context, in numpy: the bi-LSTM and the attention over it.


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """What an encoder makes of the context of each row."""

    attention: Floats  # (B, 2S) weights of the present words' states, as the query asks
    mean: Floats  # (B, 2H), their weighted mean
    masked_spans: SpanSurroundings | None  # where masked_spans are looked for


class NumpyContextEncoder:
    """`lmcells.model.context.ContextEncoder` and `lmcells.model.attention.attend` in one."""

    def __init__(self, words: npt.NDArray[Any], lstm: NumpyLstm, *, mask_id: int | None = None) -> None:
        self._words = words  # (n_read, E)
        self._lstm = lstm
        self._mask_id = mask_id  # of the mark whose surroundings are wanted

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, mask_id: int | None = None) -> Self:
        """Take the weights under the names they have in the encoder of torch."""
        words = arrays["words.weight"]
        of_lstm = {
            name.removeprefix("lstm."): array for name, array in arrays.items() if name.startswith("lstm.")
        }
        return cls(words, NumpyLstm.from_arrays(of_lstm, words=words), mask_id=mask_id)

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
        masked_spans = None
        if self._mask_id is not None:
            masked_spans = SpanSurroundings.of(
                packed,
                mask_id=self._mask_id,
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
            if masked_spans is not None:
                _keep_states(masked_spans, rows, states)
        return ContextSummary(packed.unpack(attention, width=context.shape[1]), summary, masked_spans)

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


def _keep_states(masked_spans: SpanSurroundings, rows: Ids, states: Floats) -> None:
    """Fill in the states at the marks of one block, (2, B, T, H), whose rows are these of the batch."""
    marked = np.flatnonzero(masked_spans.marked[rows])
    at = rows[marked]
    ranks, lengths = masked_spans.ranks[at], masked_spans.lengths[at]
    both = np.concatenate([states[0, marked, ranks], states[1, marked, lengths - 1 - ranks]], axis=1)
    masked_spans.state[at] = both / np.float32(NumpyLstm.STATE_SCALE)


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


# The variational network q(z | w, m, c) of a trained LMC, BSG or MBSGE, without torch.


Arrays = Mapping[str, npt.NDArray[Any]]
Gate = float | npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class NumpyPosterior:
    """q(z | w, m, c), one a row, and what it leaned on; see `lmcells.model.Posterior`."""

    mean: Floats  # (B, d)
    log_variance: Floats  # (B,)
    gate: Floats  # (B,) weight of the metadata
    attention: Floats  # (B, 2S) weights of the context positions, zero where absent


class NumpyVariationalNetwork(ABC):
    """Equal to the network of torch within 1e-4, in float32, without dropout.

    network = NumpyVariationalNetwork.from_arrays(arrays, sizes)
    cells = network.posterior(center, metadata, context, context_mask)
    cells.mean, cells.log_variance  # (B, d), (B,)
    """

    def __init__(self, arrays: Arrays, sizes: ModelSizes) -> None:
        context = {
            name.removeprefix("context."): a for name, a in arrays.items() if name.startswith("context.")
        }
        reads_masked_spans = sizes.kind == "lmc" and sizes.masked_span_dim > 0
        self._context = NumpyContextEncoder.from_arrays(
            context, mask_id=sizes.mask_id if reads_masked_spans else None
        )
        self._heads = NumpyHeads.from_arrays(arrays)
        self._sizes = sizes

    @staticmethod
    def from_arrays(arrays: Arrays, sizes: ModelSizes) -> "NumpyVariationalNetwork":
        """The network of a model's kind, from the tensors of its folder (other names than `variational.` are left)."""
        prefix = "variational."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        return _CLASS_OF[sizes.kind](own, sizes)

    def posterior(
        self,
        center: Ids,
        metadata: Ids | None,
        context: Ids,
        context_mask: Mask,
        *,
        center_mask: Mask | None = None,
        gate: Gate | None = None,
        unknown: Floats | None = None,
    ) -> NumpyPosterior:
        """The cell of each center in its window: (B,), (B,), (B, 2S), (B, 2S), (B,) -> B cells.

        Masks are true where a word is present. Metadata below 0, or None, is null. `gate`, a number or (B,), takes
        the place of the metadata's learnt weight; a model without a gate ignores it. Context ids that follow those of
        the model are rows of `unknown` (n, E), the vectors of other words.
        """
        for name, values, shape in (
            ("metadata", metadata, center.shape),
            ("center_mask", center_mask, center.shape),
            ("context_mask", context_mask, context.shape),
            ("center", center, context.shape[:1]),
        ):
            if values is not None and values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}; the other arguments need {shape}.")
        for name, mask in (("context_mask", context_mask), ("center_mask", center_mask)):
            if mask is not None and mask.dtype != np.bool_:
                raise ValueError(f"{name} is of {mask.dtype}; a mask is of bool, true where present.")
        highest = -1 if metadata is None or self._sizes.kind == "bsg" else metadata.max(initial=-1)
        if highest >= self._sizes.n_metadata > 0:
            raise ValueError(f"metadata holds id {highest}; allowed: below {self._sizes.n_metadata}.")
        return self._posterior(_Windows(center, metadata, context, context_mask, center_mask, unknown), gate)

    @abstractmethod
    def _posterior(self, windows: "_Windows", gate: Gate | None) -> NumpyPosterior: ...


@dataclass(frozen=True, slots=True)
class _Windows:
    center: Ids
    metadata: Ids | None
    context: Ids
    context_mask: Mask
    center_mask: Mask | None
    unknown: Floats | None


class _LatentMeaningCells(NumpyVariationalNetwork):
    """See `lmcells.model.VariationalNetwork`."""

    def __init__(self, arrays: Arrays, sizes: ModelSizes) -> None:
        super().__init__(arrays, sizes)
        self._metadata = arrays["metadata.weight"]  # (M, 2H)
        self._gate_weight = np.asarray(arrays["gate.weight"], np.float32).T  # (4H, 2)
        self._gate_bias = np.asarray(arrays["gate.bias"], np.float32)
        self._masked_span_reader = (
            NumpyMaskedSpanReader.from_arrays(arrays) if sizes.masked_span_dim else None
        )

    def _posterior(self, windows: _Windows, gate: Gate | None) -> NumpyPosterior:
        n_rows = windows.center.shape[0]
        metadata = np.full(n_rows, -1) if windows.metadata is None else windows.metadata
        known = metadata >= 0  # (B,)
        section = np.zeros((n_rows, self._metadata.shape[1]), np.float32)  # E_m: (B, 2H)
        section[known] = self._metadata[metadata[known]]
        read = self._context.summarise(
            windows.center,
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
            query=section,
            unknown=windows.unknown,
        )
        weight = self._learnt_gate(section, read.mean) if gate is None else _as_weights(gate, n_rows)
        weight = np.where(known, weight, np.float32(0))
        joint = read.mean + weight[:, None] * (section - read.mean)  # (B, 2H)
        if self._masked_span_reader is not None and read.masked_spans is not None:
            joint += self._masked_span_reader(joint, read.masked_spans)
        cell = self._heads(joint)
        return NumpyPosterior(cell.mean, cell.log_variance, weight, read.attention)

    def _learnt_gate(self, section: Floats, summary: Floats) -> Floats:
        """p_m: (B, 2H), (B, 2H) -> (B,)."""
        both = np.concatenate([section, summary], axis=1)  # (B, 4H)
        scores = matmul_on_one_core(both, self._gate_weight)  # (B, 2)
        scores = np.tanh(scores + self._gate_bias)
        learnt: Floats = 1 / (1 + np.exp(scores[:, 1] - scores[:, 0]))  # the softmax of two scores
        return learnt


class _SkipGram(NumpyVariationalNetwork):
    """See `lmcells.model.BayesianSkipGram`: metadata and gate are ignored."""

    def __init__(self, arrays: Arrays, sizes: ModelSizes) -> None:
        super().__init__(arrays, sizes)
        self._query = np.asarray(arrays["query"], np.float32)  # (2H,)

    def _posterior(self, windows: _Windows, gate: Gate | None) -> NumpyPosterior:  # noqa: ARG002
        n_rows = windows.center.shape[0]
        query = np.broadcast_to(self._query, (n_rows, self._query.size))
        read = self._context.summarise(
            windows.center,
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
            query=query,
            unknown=windows.unknown,
        )
        cell = self._heads(read.mean)
        return NumpyPosterior(cell.mean, cell.log_variance, np.zeros(n_rows, np.float32), read.attention)


class _SkipGramEnsemble(_SkipGram):
    """See `lmcells.model.MetadataSkipGramEnsemble`: word and section as the center, averaged."""

    def _posterior(self, windows: _Windows, gate: Gate | None) -> NumpyPosterior:
        of_word = super()._posterior(windows, gate)
        if windows.metadata is None:
            return of_word
        known = np.flatnonzero(windows.metadata >= 0)
        of_section = super()._posterior(
            _Windows(
                windows.metadata[known] + self._sizes.section_offset,
                None,
                windows.context[known],
                windows.context_mask[known],
                None,
                windows.unknown,
            ),
            gate,
        )
        for word, section in (
            (of_word.mean, of_section.mean),
            (of_word.log_variance, of_section.log_variance),
            (of_word.attention, of_section.attention),
        ):
            word[known] = (word[known] + section) / 2
        return of_word


_CLASS_OF: dict[str, type[NumpyVariationalNetwork]] = {
    "lmc": _LatentMeaningCells,
    "bsg": _SkipGram,
    "mbsge": _SkipGramEnsemble,
}


def _as_weights(gate: Gate, n_rows: int) -> Floats:
    weights = np.asarray(gate, np.float32)
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(f"gate is {gate!r}; allowed: weights from 0 (context only) to 1 (metadata only).")
    return np.broadcast_to(weights, (n_rows,))


# What a word means before its context is read, without torch: p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE.


_PREFIX = "prior."


class NumpyModelNetwork:
    """p(z | w, m): h = ReLU(W [R_w ; R_m] + b), then a mean and a log-variance. Null metadata is R_m = 0.

    prior = NumpyModelNetwork.from_arrays(arrays)
    prior(words, metadata)                            # paired ids of one shape
    prior.of_vectors(prior.phrase(words), metadata)   # a phrase: the mean of its words' vectors
    """

    def __init__(
        self, words: npt.NDArray[Any], of_metadata: Floats, *, of_word: Floats, heads: NumpyHeads
    ) -> None:
        self._words = words  # (V, E)
        self._of_metadata = of_metadata  # (M + 1, H): W_m R_m + b, null metadata last
        self._of_word = of_word  # (E, H)
        self._heads = heads

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Take the tensors of a model's folder (other names than `prior.` are left)."""
        own = {
            name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)
        }
        words, weight = own["words.weight"], np.asarray(own["hidden.weight"], np.float32).T  # (V, E), (2E, H)
        width = words.shape[1]
        of_metadata = (
            np.asarray(own["metadata.weight"], np.float32) @ weight[width:]
        )  # (M, H), projected once
        with_null = np.vstack([of_metadata, np.zeros_like(of_metadata[:1])])
        with_null += np.asarray(own["hidden.bias"], np.float32)
        return cls(words, with_null, of_word=weight[:width].copy(), heads=NumpyHeads.from_arrays(own))

    def __call__(self, words: Ids, metadata: Ids | None) -> NumpyGaussian:
        """One Gaussian a pair of ids, both of the same shape; metadata below 0, or None, is null."""
        return self.of_vectors(np.asarray(self._words[words], np.float32), metadata)

    def of_vectors(self, vectors: Floats, metadata: Ids | None) -> NumpyGaussian:
        """The same for word vectors (..., E), such as a phrase's; the leading axes may broadcast with metadata's."""
        null = np.asarray(-1)
        # Row -1 is the last one, and the last one is null metadata.
        of_metadata = self._of_metadata[null if metadata is None else np.maximum(metadata, null)]  # (..., H)
        hidden = vectors @ self._of_word + of_metadata
        np.maximum(hidden, 0, out=hidden)
        return self._heads(hidden)

    def phrase(self, words: Ids) -> Floats:
        """The mean of the vectors of some words: (n,) -> (E,)."""
        if not words.size:
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        mean: Floats = np.asarray(self._words[words], np.float32).mean(axis=0)
        return mean


class NumpyWordPrior:
    """p(z | w): a table with one Gaussian an id; see `lmcells.model.WordPrior`."""

    def __init__(self, mean: npt.NDArray[Any], log_variance: npt.NDArray[Any]) -> None:
        self._mean = mean  # (n_centers, d)
        self._log_variance = log_variance  # (n_centers,)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Take the tensors of a model's folder (other names than `prior.` are left)."""
        return cls(arrays[f"{_PREFIX}mean.weight"], arrays[f"{_PREFIX}log_variance.weight"][:, 0])

    def __call__(self, words: Ids) -> NumpyGaussian:
        """One Gaussian an id."""
        return NumpyGaussian(
            np.asarray(self._mean[words], np.float32), np.asarray(self._log_variance[words], np.float32)
        )

    def phrase(self, words: Ids) -> NumpyGaussian:
        """The Gaussian of a phrase: its words' means and log-variances, averaged."""
        if not words.size:
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        each = self(words)
        return NumpyGaussian(each.mean.mean(axis=0), each.log_variance.mean(axis=0))


# The phrase network of a trained model, without torch; see `lmcells.model.phrases`.


class NumpyPhraseNetwork:
    """Where phrases belong among the posteriors' means, by the words they have.

    network = NumpyPhraseNetwork.from_arrays(arrays)
    network([np.array([12, 7])])  # a phrase of two words -> (1, d)
    """

    def __init__(self, words: npt.NDArray[Any], weights: Mapping[str, Floats]) -> None:
        self._words = words  # (n_read, E)
        self._weights = weights

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take the tensors of a model's folder: `phrases.` and the vectors in which contexts are read."""
        prefix = "phrases."
        own = {
            name.removeprefix(prefix): np.asarray(array, np.float32)
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        return cls(arrays["variational.context.words.weight"], own)

    def __call__(self, phrases: Sequence[Ids]) -> Floats:
        """Means of phrases, each given by the ids of its words: -> (n, d)."""
        return self.of_vectors([np.asarray(self._words[words], np.float32) for words in phrases])

    def of_vectors(self, phrases: Sequence[Floats]) -> Floats:
        """Means of phrases, each given by the vectors of its words (L, E): -> (n, d)."""
        if not phrases:
            return np.zeros((0, self._weights["mean.bias"].size), np.float32)
        lengths = np.array([len(vectors) for vectors in phrases], np.int64)
        if not lengths.all():
            raise ValueError("a phrase needs at least one word of the vocabulary; found none.")
        words = np.concatenate(phrases)  # (W, E), those of one phrase after those of another
        first = np.cumsum(lengths) - lengths
        # not "@": OpenBLAS 0.3.31 reads uninitialised memory where E is 5, and numpy warns of an invalid value
        scores = np.einsum("we,e->w", words, self._weights["salience.weight"][0])
        weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, first), lengths))
        sums: Floats = np.add.reduceat(weights[:, None] * words, first, axis=0)  # (n, E)
        totals: Floats = np.add.reduceat(weights, first)  # (n,)
        pooled: Floats = sums / totals[:, None]
        hidden = _each_alone(pooled, self._weights["hidden.weight"].T) + self._weights["hidden.bias"]
        np.maximum(hidden, 0, out=hidden)
        means: Floats = _each_alone(hidden, self._weights["mean.weight"].T) + self._weights["mean.bias"]
        return means


def _each_alone(rows: Floats, matrix: Floats) -> Floats:
    """(n, k) @ (k, m), to the last bit the same for a row whichever others there are.

    Each row is a product of its own, of two equal rows: for one row OpenBLAS has a function that errs, see above.
    """
    product: Floats = np.matmul(np.stack([rows, rows], axis=1), matrix)[:, 0]
    return product
