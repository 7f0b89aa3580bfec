"""Layers that the networks share: dropout, embedded metadata, attention, and the heads of a Gaussian."""

import math

import torch
from torch import Tensor, nn

from lmcells.model.gaussian import Gaussian, at_least_float32

_VALUES = 1 << 16  # of two random bytes


class Dropout(nn.Dropout):
    """`nn.Dropout`, but on the CPU two random bytes decide about a value: torch's draw took an eighth of a step.

    The rate is then the nearest multiple of 2^-16, and what is kept is scaled for just that.
    """

    def forward(self, values: Tensor) -> Tensor:
        n_dropped = round(self.p * _VALUES)
        of_torch = values.device.type != "cpu" or torch.compiler.is_compiling() or n_dropped in (0, _VALUES)
        if not self.training or of_torch:
            return super().forward(values)
        n = values.numel()
        drawn = torch.empty((n + 3) // 4, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
        kept = drawn.view(torch.int16)[:n] >= n_dropped - _VALUES // 2  # of uniform int16, four in each draw
        return values * torch.mul(kept, _VALUES / (_VALUES - n_dropped)).to(values.dtype).view(values.shape)


def embed_metadata(table: nn.Embedding, metadata: Tensor) -> Tensor:
    """Rows of `table`, the zero vector where metadata is null: (...) -> (..., D)."""
    return torch.where((metadata >= 0).unsqueeze(-1), table(metadata.clamp_min(0)), 0.0)


def attend(query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and weighted mean of the present states: (B, D), (B, T, D), (B, T) -> (B, T), (B, D).

    softmax(query . states / sqrt(D)), absent positions excluded. A zero query weighs the present states equally;
    where none is present, weights and mean are zero.
    """
    scores = torch.matmul(states, query.unsqueeze(-1)).squeeze(-1)  # (B, T, D), (B, D) -> (B, T)
    scores = at_least_float32(scores) / math.sqrt(query.shape[-1])
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row of those has no softmax
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    mean = torch.matmul(weights.to(states.dtype).unsqueeze(-2), states).squeeze(-2)  # -> (B, D)
    return weights, mean


class GaussianHeads(nn.Module):
    """Two linear heads: mean (d) and log-variance (1)."""

    def __init__(self, hidden_dim: int, *, cell_dim: int) -> None:
        super().__init__()
        self.mean = nn.Linear(hidden_dim, cell_dim)
        self.log_variance = nn.Linear(hidden_dim, 1)

    def forward(self, hidden: Tensor) -> Gaussian:
        return Gaussian(self.mean(hidden), self.log_variance(hidden).squeeze(-1))  # (..., H) -> (...)
