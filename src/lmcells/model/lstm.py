"""The trained weights of a bidirectional LSTM; how it runs is in recurrence.py."""

import math

import torch
from torch import Tensor, nn

from lmcells.model.lstm_weights import LstmWeights
from lmcells.model.recurrence import bidirectional_lstm


class BidirectionalLstm(nn.Module):
    """One layer, drawn as `torch.nn.LSTM` draws it, with both directions in one tensor.

    As in torch there are two biases although only their sum acts: Adam moves the sum twice as fast as one.
    """

    def __init__(self, input_dim: int, *, hidden_dim: int) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.empty(2, 4 * hidden_dim, input_dim))
        self.hidden = nn.Parameter(torch.empty(2, 4 * hidden_dim, hidden_dim))
        self.input_bias = nn.Parameter(torch.empty(2, 4 * hidden_dim))
        self.hidden_bias = nn.Parameter(torch.empty(2, 4 * hidden_dim))
        bound = 1 / math.sqrt(hidden_dim)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: Tensor, mask: Tensor, *, constant: Tensor) -> Tensor:
        """States at the present positions of [inputs ; constant]: (B, T, I), (B, T), (B, C) -> (B, T, 2H)."""
        weights = LstmWeights(self.input, self.hidden, self.input_bias + self.hidden_bias)
        return bidirectional_lstm(inputs, mask, weights, constant=constant)
