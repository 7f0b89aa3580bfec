"""What a model is given: windows of text, negatives, and draws. All tensors, all drawn elsewhere."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

# What a model is given: windows of text, negatives, and draws. All tensors, all drawn elsewhere.


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Center words and what surrounds them: the conditions of q(z | w, m, c).

    In both masks True means present. An absent context position (padding at a boundary, or a masked word) may
    hold any valid id: it never changes a result. An absent center is a zero vector in q, and only there.
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
                raise ValueError(f"{name} is of {mask.dtype}; a mask is of torch.bool, True where present.")
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
    Otherwise `words` are distinct and hold every present context word and its negative (fewer rows: the CPU).
    A model without metadata needs no sections.
    """

    sections: Tensor | None = None  # (U, n)
    words: Tensor | None = None  # (U,)

    def rows_of(self, ids: Tensor, *, n_words: int) -> Tensor:
        """The table row of each word id; a word the table does not have gets a row past its end."""
        if self.words is None:
            return ids
        n_rows = self.words.shape[0]
        row_of = ids.new_full((n_words,), n_rows)
        row_of[self.words] = torch.arange(n_rows, dtype=ids.dtype, device=ids.device)
        return row_of[ids]


# Dropout whose draws are cheap on the CPU.


_VALUES = 1 << 16  # of two random bytes


class Dropout(nn.Dropout):
    """`nn.Dropout`, but on the CPU two random bytes decide about a value: torch's draw took an eighth of a step.

    The rate is then the nearest multiple of 2^-16, and what is kept is scaled for just that.
    """

    def forward(self, values: Tensor) -> Tensor:
        n_dropped = round(self.p * _VALUES)
        if not self.training or values.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(values)
        if n_dropped in (0, _VALUES):
            return super().forward(values)
        kept = _random_bytes(values.numel()) >= n_dropped - _VALUES // 2
        return values * torch.mul(kept, _VALUES / (_VALUES - n_dropped)).to(values.dtype).view(values.shape)


def _random_bytes(n: int) -> Tensor:
    """Numbers from -2^15 to 2^15 - 1, all alike, from torch's global generator: (n,) int16."""
    drawn = torch.empty((n + 3) // 4, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    return drawn.view(torch.int16)[:n]


# Metadata ids, null values among them.


NULL_METADATA = -1
"""Stands for "no metadata" among metadata ids."""


def or_null(metadata: Tensor | None, *, shape: torch.Size, device: torch.device) -> Tensor:
    """The ids, or as many null values where there are none at all."""
    return torch.full(shape, NULL_METADATA, device=device) if metadata is None else metadata


def embed_metadata(table: nn.Embedding, metadata: Tensor) -> Tensor:
    """Rows of `table`, the zero vector where metadata is null: (...) -> (..., D)."""
    return torch.where((metadata >= 0).unsqueeze(-1), table(metadata.clamp_min(0)), 0.0)
