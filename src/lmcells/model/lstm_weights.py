"""The weights of a bidirectional LSTM, as the recurrence reads them."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class LstmWeights:
    """Weights of both directions, forward first; gates in torch's order: input, forget, cell, output."""

    input: Tensor  # (2, 4H, I)
    hidden: Tensor  # (2, 4H, H)
    bias: Tensor  # (2, 4H)
