"""The variational network q(z | w, m, c) of a trained LMC, BSG or MBSGE, without torch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.numpy_context import NumpyContextEncoder
from lmcells.pretrained.numpy_gap_reader import NumpyGapReader
from lmcells.pretrained.numpy_heads import NumpyHeads
from lmcells.pretrained.numpy_lstm import Ids
from lmcells.pretrained.one_core import Floats, matmul_on_one_core
from lmcells.pretrained.packed_windows import Mask
from lmcells.pretrained.sizes import ModelSizes

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
        reads_gaps = sizes.kind == "lmc" and sizes.gap_dim > 0
        self._context = NumpyContextEncoder.from_arrays(context, gap_id=sizes.gap_id if reads_gaps else None)
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
        self._gap_reader = NumpyGapReader.from_arrays(arrays) if sizes.gap_dim else None

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
        if self._gap_reader is not None and read.gaps is not None:
            joint += self._gap_reader(joint, read.gaps)
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
