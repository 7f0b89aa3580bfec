"""Scaled dot-product attention of one query over the context."""

import math

import torch
from torch import Tensor

from lmcells.model.precision import at_least_float32


def attend(query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and weighted mean of the present states: (B, D), (B, T, D), (B, T) -> (B, T), (B, D).

    softmax(query . states / sqrt(D)), absent positions excluded. A zero query weighs the present alike; where
    nothing is present, weights and mean are zero.
    """
    scores = torch.matmul(states, query.unsqueeze(-1)).squeeze(-1)  # (B, T, D), (B, D) -> (B, T)
    scores = at_least_float32(scores) / math.sqrt(query.shape[-1])
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row of those has no softmax
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    mean = torch.matmul(weights.to(states.dtype).unsqueeze(-2), states).squeeze(-2)  # -> (B, D)
    return weights, mean
