"""Metadata ids, null values among them."""

import torch
from torch import Tensor, nn

NULL_METADATA = -1
"""Stands for "no metadata" among metadata ids."""


def or_null(metadata: Tensor | None, *, shape: torch.Size, device: torch.device) -> Tensor:
    """The ids, or as many null values where there are none at all."""
    return torch.full(shape, NULL_METADATA, device=device) if metadata is None else metadata


def embed_metadata(table: nn.Embedding, metadata: Tensor) -> Tensor:
    """Rows of `table`, the zero vector where metadata is null: (...) -> (..., D)."""
    return torch.where((metadata >= 0).unsqueeze(-1), table(metadata.clamp_min(0)), 0.0)
