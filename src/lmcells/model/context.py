"""From the ids of a window to one state a context position."""

import torch
from torch import Tensor, nn

from lmcells.model.batch import Windows
from lmcells.model.config import ModelConfig
from lmcells.model.dropout import Dropout
from lmcells.model.lstm import BidirectionalLstm


class ContextEncoder(nn.Module):
    """A bi-LSTM over [E_c ; E_w] at each context position: the center is tiled along its context.

    Dropout falls on each embedding as it is looked up, so on the center's once a row.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.n_read, config.embedding_dim)
        self.lstm = BidirectionalLstm(2 * config.embedding_dim, hidden_dim=config.lstm_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, windows: Windows) -> tuple[Tensor, Tensor]:
        """States, and the vectors that were read: -> (B, 2S, 2H), (B, 2S, E)."""
        n_rows, n_steps = windows.context.shape
        ids = torch.cat([windows.context.flatten(), windows.center])  # one lookup: one gradient of the table
        vectors: Tensor = self.dropout(self.words(ids))
        context, center = vectors.split_with_sizes([n_rows * n_steps, n_rows])  # (B * 2S, E), (B, E)
        if windows.center_mask is not None:
            center = torch.where(windows.center_mask.unsqueeze(-1), center, 0.0)
        context = context.view(n_rows, n_steps, self.words.embedding_dim)
        states: Tensor = self.lstm(context, windows.context_mask, constant=center)
        return states, context
