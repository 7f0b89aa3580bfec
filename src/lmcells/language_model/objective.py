"""Predicting the next word: exactly, or against a sample of the vocabulary that stands for all of it."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.model.precision import full_precision
from lmcells.training.draws import AliasTable

_LOGITS_AT_ONCE = 1 << 26
_NEVER = -1e30  # as a logit; -inf would have no gradient where all are


class WordTable(nn.Module):
    """What each word that can be predicted looks for in a state, and how likely it is anyway."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(n_words, width)
        self.biases = nn.Embedding(n_words, 1)
        nn.init.normal_(
            self.vectors.weight, std=0.02
        )  # larger ones are noise to unlearn: 0.1 nats after 150 steps
        nn.init.zeros_(self.biases.weight)

    def start_from(self, counts: npt.NDArray[np.integer]) -> None:
        """Begin with the words' frequencies, which would take a hundred steps to learn."""
        chances = np.asarray(counts, np.float64) / np.sum(counts)
        with torch.no_grad():
            self.biases.weight.copy_(torch.from_numpy(np.log(chances)).unsqueeze(1))

    def logits(self, states: Tensor) -> Tensor:
        """(N, width) -> (N, n_words)."""
        return functional.linear(states, self.vectors.weight, self.biases.weight.squeeze(1))

    def logits_of(self, states: Tensor, words: Tensor) -> Tensor:
        """The logit of one word a state: (N, width), (N,) -> (N,)."""
        logits: Tensor = (states * self.vectors(words)).sum(dim=-1) + self.biases(words).squeeze(1)
        return logits


@dataclass(frozen=True, slots=True)
class Negatives:
    """Words drawn from count^exponent, with how likely each is to be drawn."""

    table: AliasTable
    log_chance: Tensor  # (n_words,)

    @classmethod
    def of_counts(cls, counts: npt.NDArray[np.integer], *, exponent: float, device: torch.device) -> Self:
        """Build the distribution from the words' counts."""
        weights = np.asarray(counts, np.float64) ** exponent
        log_chance = torch.from_numpy(np.log(weights / weights.sum()).astype(np.float32))
        return cls(AliasTable.of_weights(weights, device=device), log_chance.to(device))

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent draws: -> (n,) int64."""
        return self.table.draw((n,), generator).long()


def full_losses(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """-log p(word | state) over the whole vocabulary: (N, width), (N,) -> (N,)."""
    return functional.cross_entropy(table.logits(states).float(), words, reduction="none")


def full_losses_in_parts(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """The same, with memory for a part of the logits at a time; for measuring, where no gradient is wanted."""
    rows = max(1, _LOGITS_AT_ONCE // table.vectors.num_embeddings)
    firsts = range(0, words.shape[0], rows)
    return torch.cat(
        [full_losses(table, states[first : first + rows], words[first : first + rows]) for first in firsts]
    )


def sampled_losses(
    table: WordTable, states: Tensor, words: Tensor, *, drawn: Tensor, log_chance: Tensor
) -> Tensor:
    """-log p(word | state) with an estimate of the denominator: (N, width), (N,), (S,) -> (N,).

    Z = exp l_w + sum over v != w of exp l_v, whose sum is estimated without bias by the drawn words v_s != w as
    1/S sum exp(l_v) / q(v) (Bengio and Senecal 2003). The more are drawn, the nearer it is to `full_losses`.
    """
    correction = log_chance[drawn] + float(np.log(drawn.shape[0]))  # (S,)
    logits = functional.linear(states, table.vectors(drawn), table.biases(drawn).squeeze(1))  # (N, S)
    with full_precision(logits):
        right = table.logits_of(states.float(), words)  # (N,)
        others = (logits.float() - correction).masked_fill(drawn == words.unsqueeze(1), _NEVER)  # (N, S)
        return torch.logaddexp(right, others.logsumexp(dim=1)) - right
