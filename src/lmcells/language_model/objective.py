"""Predicting the next word: by the exact softmax, or against a sample of the vocabulary."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmcells.model.gaussian import full_precision
from lmcells.training.device_corpus import AliasTable

_LOGITS_AT_ONCE = 1 << 26
_ALIGNMENT = 64  # of a row of logits: GPUs have fast matrix products for such sizes only
_NEVER = -1e30  # as a logit; -inf would have no gradient where all are -inf


class WordTable(nn.Module):
    """The output layer: a vector and a bias for each word that can be predicted."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(n_words, width)
        self.biases = nn.Embedding(n_words, 1)
        nn.init.normal_(self.vectors.weight, std=0.02)  # larger ones are noise: 0.1 nats after 150 steps
        nn.init.zeros_(self.biases.weight)

    def start_from(self, counts: npt.NDArray[np.integer]) -> None:
        """Initialise the biases with the words' frequencies, which would take a hundred steps to learn."""
        chances = np.asarray(counts, np.float64) / np.sum(counts)
        with torch.no_grad():
            self.biases.weight.copy_(torch.from_numpy(np.log(chances)).unsqueeze(1))

    def logits(self, states: Tensor) -> Tensor:
        """(N, width) -> (N, n_words)."""
        return functional.linear(states, self.vectors.weight, self.biases.weight.squeeze(1))

    def logits_of(self, states: Tensor, words: Tensor) -> Tensor:
        """The logit of one word per state: (N, width), (N,) -> (N,)."""
        logits: Tensor = (states * self.vectors(words)).sum(dim=-1) + self.biases(words).squeeze(1)
        return logits


def negatives(
    counts: npt.NDArray[np.integer], *, exponent: float, device: torch.device
) -> tuple[AliasTable, Tensor]:
    """The distribution count^exponent, to draw from, and its logarithms: (n_words,)."""
    weights = np.asarray(counts, np.float64) ** exponent
    log_chance = torch.from_numpy(np.log(weights / weights.sum()).astype(np.float32))
    return AliasTable.of_weights(weights, device=device), log_chance.to(device)


def full_losses(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """-log p(word | state) over the whole vocabulary, a part of the logits at a time: (N, width), (N,) -> (N,)."""
    rows = max(1, _LOGITS_AT_ONCE // table.vectors.num_embeddings)
    parts = zip(torch.split(states, rows), torch.split(words, rows), strict=True)
    return torch.cat(
        [
            functional.cross_entropy(table.logits(part).float(), right, reduction="none")
            for part, right in parts
        ]
    )


def softmax_losses(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """The same for training: in the precision of autocast, with a third of the memory traffic."""
    kind = states.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
    n_more = -table.vectors.num_embeddings % _ALIGNMENT  # words that never occur
    with full_precision(states):
        vectors = functional.pad(table.vectors.weight.to(dtype), (0, 0, 0, n_more))
        biases = functional.pad(table.biases.weight.squeeze(1).to(dtype), (0, n_more), value=-math.inf)
        losses: Tensor = _SoftmaxLosses.apply(states.to(dtype), vectors, biases, words)  # type: ignore[no-untyped-call]
    return losses


class _SoftmaxLosses(torch.autograd.Function):
    """-log softmax(states vectors' + biases) at the words; its gradient is the softmax, less 1 at the words."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, vectors: Tensor, biases: Tensor, words: Tensor) -> Tensor:
        chances = functional.linear(states, vectors, biases).softmax(dim=-1)  # (N, n_words)
        ctx.save_for_backward(states, vectors, words, chances)
        right = chances.gather(1, words.unsqueeze(1)).squeeze(1).float()
        return -right.clamp_min(torch.finfo(right.dtype).tiny).log()  # (N,)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states, vectors, words, chances = ctx.saved_tensors
        column = words.unsqueeze(1)
        errors = chances.scatter_add_(1, column, -torch.ones_like(column, dtype=chances.dtype))  # in place
        weights = gradient.to(states.dtype)  # (N,)
        of_states = (errors @ vectors) * weights.unsqueeze(1)
        of_vectors = errors.T @ (states * weights.unsqueeze(1))
        return of_states, of_vectors, weights @ errors, None


def sampled_losses(
    table: WordTable, states: Tensor, words: Tensor, *, drawn: Tensor, log_chance: Tensor
) -> Tensor:
    """-log p(word | state) with an estimate of the denominator: (N, width), (N,), (S,) -> (N,).

    Z = exp l_w + sum over v != w of exp l_v, whose sum is estimated without bias by the drawn words v_s != w as
    1/S sum exp(l_v) / q(v) (Bengio and Senecal 2003). The more are drawn, the nearer it is to `full_losses`.
    """
    drawn = drawn.long()
    correction = log_chance[drawn] + float(np.log(drawn.shape[0]))  # (S,)
    logits = functional.linear(states, table.vectors(drawn), table.biases(drawn).squeeze(1))  # (N, S)
    with full_precision(logits):
        right = table.logits_of(states.float(), words)  # (N,)
        others = (logits.float() - correction).masked_fill(drawn == words.unsqueeze(1), _NEVER)  # (N, S)
        return torch.logaddexp(right, others.logsumexp(dim=1)) - right
