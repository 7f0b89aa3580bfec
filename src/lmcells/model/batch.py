"""The inputs of a model, all of them tensors: windows of text, negatives and section draws."""

from dataclasses import dataclass

import torch
from torch import Tensor

NULL_METADATA = -1
"""Stands for "no metadata" among metadata ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Center words and what surrounds them: the conditions of q(z | w, m, c).

    In both masks True means present. An absent context position (padding at a boundary, or a masked word) may
    hold any valid id, which never changes a result. An absent center is a zero vector in q, and only there.
    """

    center: Tensor  # (B,)
    context: Tensor  # (B, 2S), in the order of the text
    context_mask: Tensor  # (B, 2S) bool
    metadata: Tensor | None = None  # (B,), NULL_METADATA where there is none; None is null in every row
    center_mask: Tensor | None = None  # (B,) bool; None is present in every row

    def __post_init__(self) -> None:
        rows = self.center.shape
        if self.context.shape != self.context_mask.shape or self.context.shape[:-1] != rows:
            raise ValueError(
                f"center {tuple(rows)}, context {tuple(self.context.shape)} and context_mask "
                f"{tuple(self.context_mask.shape)} must be (B,), (B, 2S) and (B, 2S)."
            )
        for name, mask in (("context_mask", self.context_mask), ("center_mask", self.center_mask)):
            if mask is not None and mask.dtype != torch.bool:
                raise ValueError(
                    f"{name} has dtype {mask.dtype}; a mask needs torch.bool, True where present."
                )
        for name, values in (("metadata", self.metadata), ("center_mask", self.center_mask)):
            if values is not None and values.shape != rows:
                raise ValueError(f"{name} has shape {tuple(values.shape)}; center has {tuple(rows)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Windows):
    """Windows with one negative word for each context position."""

    negatives: Tensor  # (B, 2S)

    def __post_init__(self) -> None:
        Windows.__post_init__(self)  # super() does not work in a slotted dataclass
        if self.negatives.shape != self.context.shape:
            raise ValueError(
                f"negatives has shape {tuple(self.negatives.shape)}; context has {tuple(self.context.shape)}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionDraws:
    """The words of a step's moment table, and for each the sections drawn from beta(m | w).

    With `words` None the table has a row for every word of the vocabulary, in order (static shapes: the GPU).
    Otherwise `words` are distinct and include every present context word and its negative (fewer rows: the CPU).
    A model without metadata needs no sections.
    """

    sections: Tensor | None = None  # (U, n)
    words: Tensor | None = None  # (U,)

    def rows_of(self, ids: Tensor, *, n_words: int) -> Tensor:
        """The table row of each word id; a word that is not in the table gets a row past its end."""
        if self.words is None:
            return ids
        n_rows = self.words.shape[0]
        row_of = ids.new_full((n_words,), n_rows)
        row_of[self.words] = torch.arange(n_rows, dtype=ids.dtype, device=ids.device)
        return row_of[ids]


def or_null(metadata: Tensor | None, *, shape: torch.Size, device: torch.device) -> Tensor:
    """The ids, or NULL_METADATA everywhere if they are None."""
    return torch.full(shape, NULL_METADATA, device=device) if metadata is None else metadata
