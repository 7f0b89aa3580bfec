"""Reading words in one direction and in the other; neither ever sees what it has yet to predict.

The backward direction is a second stack of the same kind that reads the words in reverse. Each stack's padding comes
after its words, and what comes after is never seen, so no other mask is needed.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.language_model.config import LanguageModelConfig
from lmcells.model.precision import full_precision


class Readings(NamedTuple):
    """States of both stacks in the order in which each reads: a boundary, then the words. (B, 1 + T, width) each."""

    forward: Tensor
    backward: Tensor


class CausalAttentionLayer(nn.Module):
    """A transformer layer that normalises its inputs: each position sees itself and those before it."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, config.feed_forward)
        self.narrow = nn.Linear(config.feed_forward, width)

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        states = states + self._dropped(self._attend(self.before_attention(states)))
        widened = functional.gelu(self.widen(self.before_feed_forward(states)))
        return states + self._dropped(self.narrow(self._dropped(widened)))

    def _attend(self, states: Tensor) -> Tensor:
        by_head = self.queries_keys_values(states).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, heads, d)
        queries, keys, values = by_head.permute(2, 0, 3, 1, 4)  # (B, heads, T, d) each
        rate = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=rate, is_causal=True)
        attended: Tensor = self.attended(found.transpose(1, 2).flatten(2))
        return attended

    def _dropped(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class TransformerStack(nn.Module):
    """Causal layers over words with sinusoidal positions."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.Sequential(*(CausalAttentionLayer(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        normed: Tensor = self.norm(self.layers(self.dropout(words + positions(words))))
        return normed


class LstmStack(nn.Module):
    """LSTM layers; each but the first adds to what it reads, as in ELMo."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.LSTM(config.width, config.width, batch_first=True) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        states = words
        with full_precision(words):  # autocast would take fp16, whose gradients vanish, and never bf16
            for number, layer in enumerate(self.layers):
                read, _ = layer(self.dropout(states))
                states = states + read if number else read
        normed: Tensor = self.norm(states)
        return normed


class BidirectionalEncoder(nn.Module):
    """Two stacks that read the same words, one from the left and one from the right."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        stack = TransformerStack if config.kind == "transformer" else LstmStack
        self.boundaries = nn.Embedding(2, config.width)  # what each stack reads first
        self.forward_stack = stack(config)
        self.backward_stack = stack(config)

    def forward(self, words: Tensor, mirrored: Tensor) -> Readings:
        """Word vectors (B, T, width) in the order of the text, and in that of the backward stack -> all states."""
        return Readings(
            self.forward_stack(self._after_boundary(0, words)),
            self.backward_stack(self._after_boundary(1, mirrored)),
        )

    def _after_boundary(self, direction: int, words: Tensor) -> Tensor:
        boundary = self.boundaries.weight[direction].to(words.dtype).expand(words.shape[0], 1, -1)
        return torch.cat([boundary, words], dim=1)


def mirror(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first `lengths` values of each row, (B, T, ...); what comes after them stays where it is."""
    place = torch.arange(values.shape[1], device=values.device)  # (T,)
    mirrored = lengths.unsqueeze(1) - 1 - place  # (B, T)
    source = torch.where(mirrored >= 0, mirrored, place)
    return values[torch.arange(values.shape[0], device=values.device).unsqueeze(1), source]


def positions(words: Tensor) -> Tensor:
    """Sines and cosines that tell places apart (Vaswani et al. 2017): (B, T, width) -> (T, width)."""
    width = words.shape[-1]
    place = torch.arange(words.shape[1], device=words.device, dtype=torch.float32).unsqueeze(1)  # (T, 1)
    step = torch.arange(0, width, 2, device=words.device, dtype=torch.float32)
    angle = place * torch.exp(step * (-math.log(10_000.0) / width))  # (T, width / 2)
    return torch.cat([angle.sin(), angle.cos()], dim=-1).to(words.dtype)
