"""The variational network q(z | w, m, c) of the LMC (the paper's appendix, "Architecture")."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lmcells.model.attention import attend
from lmcells.model.batch import Windows
from lmcells.model.config import ModelConfig
from lmcells.model.context import ContextEncoder
from lmcells.model.dropout import Dropout
from lmcells.model.gaussian import Gaussian
from lmcells.model.heads import GaussianHeads
from lmcells.model.metadata import embed_metadata, or_null
from lmcells.model.precision import at_least_float32


@dataclass(frozen=True, slots=True)
class Posterior:
    """q(z | w, m, c), and what it leaned on."""

    cell: Gaussian  # (B,)
    gate: Tensor  # (B,) weight of the metadata; the context has the rest
    attention: Tensor  # (B, 2S) weights of the context positions, zero where absent


class VariationalNetwork(nn.Module):
    """Bi-LSTM over the context, summed up by the metadata's attention, mixed with the metadata by a gate.

    h_joint = p_m E_m + (1 - p_m) h_word, where (p_m, 1 - p_m) = softmax(tanh(two scores)), which keeps each
    weight above 1 / (1 + e^2) = 0.12.

    With `reads_gap` the state at the mark, in which the words before and after the gap end, is added to
    h_joint by a linear layer: the attention alone hardly tells the words next to a gap from the others.

    Null values: without metadata its weight is 0, override or not, and the attention is uniform over the
    present words (E_m is the zero vector). Without context h_word is the zero vector, and the gate
    weighs it as any other.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.context = ContextEncoder(config)
        self.metadata = nn.Embedding(config.n_metadata, config.metadata_dim)
        self.gate = nn.Linear(2 * config.metadata_dim, 2)  # scores of the metadata and of the context
        self.heads = GaussianHeads(config.metadata_dim, cell_dim=config.cell_dim)
        self.dropout = Dropout(config.dropout)
        self.gap_id = config.gap_id
        width = config.metadata_dim
        self.at_gap = nn.Linear(width, width, bias=False) if config.reads_gap else None

    def forward(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """One posterior a row; `gate`, a number or (B,), takes the place of the metadata's learnt weight."""
        states = self.context(windows)  # (B, 2S, 2H)
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=windows.center.device)
        section = embed_metadata(self.metadata, metadata)  # E_m: (B, 2H)
        attention, summary = attend(section, states, windows.context_mask)  # (B, 2S), h_word: (B, 2H)
        learnt = self.learnt_gate(section, summary)  # (B,)
        weight = learnt if gate is None else _broadcast(gate, like=learnt)
        weight = weight.masked_fill(metadata < 0, 0.0)
        joint = torch.lerp(at_least_float32(summary), at_least_float32(section), weight.unsqueeze(-1))
        joint = self.dropout(joint)
        if self.at_gap is not None:
            is_mark = (windows.context == self.gap_id) & windows.context_mask  # (B, 2S + 1)
            state = torch.where(is_mark.unsqueeze(-1), states, 0.0).sum(
                dim=1
            )  # (B, 2H), zero where there is no mark
            joint = joint + self.at_gap(self.dropout(state))
        return Posterior(self.heads(joint), weight, attention)

    def learnt_gate(self, section: Tensor, summary: Tensor) -> Tensor:
        """p_m: (B, 2H), (B, 2H) -> (B,)."""
        scores = self.gate(self.dropout(torch.cat([section, summary], dim=-1)))  # (B, 4H) -> (B, 2)
        for_metadata, for_context = at_least_float32(scores).tanh().unbind(dim=-1)
        return torch.sigmoid(for_metadata - for_context)  # the softmax of two scores


def _broadcast(gate: float | Tensor, *, like: Tensor) -> Tensor:
    if not isinstance(gate, Tensor) and not 0 <= gate <= 1:
        raise ValueError(f"gate is {gate!r}; allowed: a weight from 0 (context only) to 1 (metadata only).")
    return torch.as_tensor(gate, dtype=like.dtype, device=like.device).expand(like.shape)
