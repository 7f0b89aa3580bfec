"""The gap reader: what stands next to a gap, read together with all that is around it.

Not in the paper, whose attention hardly tells the words next to the center from those ten words away.
"""

import torch
from torch import Tensor, nn

from lmcells.model.batch import Windows
from lmcells.model.config import ModelConfig


class GapReader(nn.Module):
    """U ReLU(V [h_joint ; h_mark ; E_-R .. E_-1 ; E_1 .. E_R] + b), which is added to h_joint; R is `gap_reach`.

    h_mark is the state of the bi-LSTM at the mark of the gap, in which the words before and after it end; E are the
    vectors of the present words nearest to it, zero where there is none.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.reach = config.gap_reach
        width = 2 * config.metadata_dim + 2 * self.reach * config.embedding_dim
        self.hidden = nn.Linear(width, config.gap_dim)
        self.out = nn.Linear(config.gap_dim, config.metadata_dim, bias=False)

    def forward(self, joint: Tensor, state: Tensor, neighbours: Tensor) -> Tensor:
        """(B, 2H), (B, 2H), (B, 2RE) -> (B, 2H)."""
        read = torch.cat([joint, state.to(joint.dtype), neighbours.to(joint.dtype)], dim=-1)
        added: Tensor = self.out(self.hidden(read).relu())
        return added


def neighbour_places(reach: int, *, device: torch.device) -> Tensor:
    """Places from the mark, -R to -1 and 1 to R: made on the device, since a captured step copies nothing to it."""
    places = torch.arange(2 * reach, device=device)
    return places - reach + (places >= reach)


def around_gap(
    windows: Windows, states: Tensor, vectors: Tensor, *, gap_id: int, reach: int
) -> tuple[Tensor, Tensor, Tensor]:
    """State at the mark, vectors of its neighbours, and which rows have a mark.

    (B, T, 2H), (B, T, E) -> (B, 2H), (B, 2RE), (B, 1) bool; zero where there is nothing.
    """
    mask = windows.context_mask
    is_mark = (windows.context == gap_id) & mask  # (B, T)
    marked = is_mark.any(dim=1, keepdim=True)  # (B, 1)
    column = is_mark.int().argmax(dim=1, keepdim=True)  # (B, 1)
    in_order = torch.argsort(~mask, dim=1, stable=True)  # present words first, in the order of the text
    rank = (mask.cumsum(dim=1) - 1).gather(1, column)  # (B, 1)
    wanted = rank + neighbour_places(reach, device=rank.device)  # (B, 2R)
    there = (wanted >= 0) & (wanted < mask.sum(dim=1, keepdim=True)) & marked
    columns = in_order.gather(1, wanted.clamp(0, mask.shape[1] - 1))
    rows = torch.arange(mask.shape[0], device=rank.device).unsqueeze(1)
    neighbours = torch.where(there.unsqueeze(-1), vectors[rows, columns], 0.0).flatten(1)
    state = torch.where(marked, states[rows, column].squeeze(1), 0.0)
    return state, neighbours, marked
