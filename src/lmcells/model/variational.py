"""The variational network q(z | w, m, c) of the LMC (the paper's appendix, "Architecture")."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lmcells.model.attention import attend
from lmcells.model.batch import Batch, Windows
from lmcells.model.config import ModelConfig
from lmcells.model.context import ContextEncoder
from lmcells.model.dropout import Dropout
from lmcells.model.gap_reader import GapReader, around_gap
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

    With `gap_dim` what a gap reader finds next to the mark of a gap is added to h_joint.

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
        self.gap_reader = GapReader(config) if config.gap_dim else None

    def forward(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """One posterior a row; `gate`, a number or (B,), takes the place of the metadata's learnt weight."""
        states, vectors = self.context(windows)  # (B, 2S, 2H), (B, 2S, E)
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=windows.center.device)
        section = embed_metadata(self.metadata, metadata)  # E_m: (B, 2H)
        attention, summary = attend(section, states, windows.context_mask)  # (B, 2S), h_word: (B, 2H)
        learnt = self.learnt_gate(section, summary)  # (B,)
        weight = learnt if gate is None else _broadcast(gate, like=learnt)
        weight = weight.masked_fill(metadata < 0, 0.0)
        joint = torch.lerp(at_least_float32(summary), at_least_float32(section), weight.unsqueeze(-1))
        joint = self.dropout(joint)
        if self.gap_reader is not None and not isinstance(windows, Batch):  # the objective marks no gaps
            state, neighbours, marked = around_gap(
                windows, states, vectors, gap_id=self.gap_id, reach=self.gap_reader.reach
            )
            added = self.gap_reader(joint, self.dropout(state), neighbours)
            joint = joint + torch.where(marked, added, 0.0)
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
