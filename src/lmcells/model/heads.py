"""From a hidden state to an isotropic Gaussian."""

from torch import Tensor, nn

from lmcells.model.gaussian import Gaussian


class GaussianHeads(nn.Module):
    """Two linear heads: mean (d) and log-variance (1)."""

    def __init__(self, hidden_dim: int, *, cell_dim: int) -> None:
        super().__init__()
        self.mean = nn.Linear(hidden_dim, cell_dim)
        self.log_variance = nn.Linear(hidden_dim, 1)

    def forward(self, hidden: Tensor) -> Gaussian:
        return Gaussian(self.mean(hidden), self.log_variance(hidden).squeeze(-1))  # (..., H) -> (...)
