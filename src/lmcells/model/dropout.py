"""Dropout whose draws are cheap on the CPU."""

import torch
from torch import Tensor, nn

_VALUES = 1 << 16  # of two random bytes


class Dropout(nn.Dropout):
    """`nn.Dropout`, but on the CPU two random bytes decide about a value: torch's draw took an eighth of a step.

    The rate is then the nearest multiple of 2^-16, and what is kept is scaled for just that.
    """

    def forward(self, values: Tensor) -> Tensor:
        n_dropped = round(self.p * _VALUES)
        if not self.training or values.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(values)
        if n_dropped in (0, _VALUES):
            return super().forward(values)
        kept = _random_bytes(values.numel()) >= n_dropped - _VALUES // 2
        return values * torch.mul(kept, _VALUES / (_VALUES - n_dropped)).to(values.dtype).view(values.shape)


def _random_bytes(n: int) -> Tensor:
    """Numbers from -2^15 to 2^15 - 1, all alike, from torch's global generator: (n,) int16."""
    drawn = torch.empty((n + 3) // 4, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    return drawn.view(torch.int16)[:n]
