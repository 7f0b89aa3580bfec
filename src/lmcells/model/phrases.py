"""The phrase network: what a phrase means by its words alone, as a point among the posteriors' means.

Not in the paper, which reads a long form as the mean of its words' vectors. Here a phrase's words are weighed, and the
result is trained to be where the posterior puts the gap that the phrase leaves in a text (see the agreement term).
"""

import torch
from torch import Tensor, nn

from lmcells.model.config import ModelConfig
from lmcells.model.dropout import Dropout
from lmcells.model.precision import at_least_float32


class PhraseNetwork(nn.Module):
    """x = sum of a_i E_i with a = softmax(s . E_i); mean = V ReLU(U x + b) + c. The order of words is not read."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.salience = nn.Linear(config.embedding_dim, 1, bias=False)
        self.hidden = nn.Linear(config.embedding_dim, config.phrase_dim)
        self.mean = nn.Linear(config.phrase_dim, config.cell_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Means of phrases from the vectors of their words: (n, L, E), (n, L) -> (n, d)."""
        vectors = self.dropout(vectors)
        scores = at_least_float32(self.salience(vectors).squeeze(-1))  # (n, L)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        pooled = (weights.unsqueeze(-1) * vectors).sum(dim=1)  # (n, L, E) -> (n, E)
        mean: Tensor = self.mean(self.hidden(pooled).relu())
        return mean
