"""The variational network q(z | w, m, c) of the LMC (the paper's appendix, "Architecture")."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lmcells.model.batch import Batch, Dropout, Windows, embed_metadata, or_null
from lmcells.model.config import ModelConfig
from lmcells.model.gaussian import Gaussian, GaussianHeads, at_least_float32
from lmcells.model.recurrence import BidirectionalLstm

# Scaled dot-product attention of one query over the context.


def attend(query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and weighted mean of the present states: (B, D), (B, T, D), (B, T) -> (B, T), (B, D).

    softmax(query . states / sqrt(D)), absent positions excluded. A zero query weighs the present alike; where
    nothing is present, weights and mean are zero.
    """
    scores = torch.matmul(states, query.unsqueeze(-1)).squeeze(-1)  # (B, T, D), (B, D) -> (B, T)
    scores = at_least_float32(scores) / math.sqrt(query.shape[-1])
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row of those has no softmax
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    mean = torch.matmul(weights.to(states.dtype).unsqueeze(-2), states).squeeze(-2)  # -> (B, D)
    return weights, mean


# From the ids of a window to one state a context position.


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


# The gap reader: what stands next to a gap, read together with all that is around it.
#
# Not in the paper, whose attention hardly tells the words next to the center from those ten words away.


class MaskedSpanReader(nn.Module):
    """U ReLU(V [h_joint ; h_mark ; E_-R .. E_-1 ; E_1 .. E_R] + b), which is added to h_joint; R is `masked_span_reach`.

    h_mark is the state of the bi-LSTM at the mark of the gap, in which the words before and after it end; E are the
    vectors of the present words nearest to it, zero where there is none.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.reach = config.masked_span_reach
        width = 2 * config.metadata_dim + 2 * self.reach * config.embedding_dim
        self.hidden = nn.Linear(width, config.masked_span_dim)
        self.out = nn.Linear(config.masked_span_dim, config.metadata_dim, bias=False)

    def forward(self, joint: Tensor, state: Tensor, neighbours: Tensor) -> Tensor:
        """(B, 2H), (B, 2H), (B, 2RE) -> (B, 2H)."""
        read = torch.cat([joint, state.to(joint.dtype), neighbours.to(joint.dtype)], dim=-1)
        added: Tensor = self.out(self.hidden(read).relu())
        return added


def neighbour_offsets(reach: int, *, device: torch.device) -> Tensor:
    """Places from the mark, -R to -1 and 1 to R: made on the device, since a captured step copies nothing to it."""
    places = torch.arange(2 * reach, device=device)
    return places - reach + (places >= reach)


def around_span(
    windows: Windows, states: Tensor, vectors: Tensor, *, mask_id: int, reach: int
) -> tuple[Tensor, Tensor, Tensor]:
    """State at the mark, vectors of its neighbours, and which rows have a mark.

    (B, T, 2H), (B, T, E) -> (B, 2H), (B, 2RE), (B, 1) bool; zero where there is nothing.
    """
    mask = windows.context_mask
    is_mask = (windows.context == mask_id) & mask  # (B, T)
    marked = is_mask.any(dim=1, keepdim=True)  # (B, 1)
    column = is_mask.int().argmax(dim=1, keepdim=True)  # (B, 1)
    in_order = torch.argsort(~mask, dim=1, stable=True)  # present words first, in the order of the text
    rank = (mask.cumsum(dim=1) - 1).gather(1, column)  # (B, 1)
    wanted = rank + neighbour_offsets(reach, device=rank.device)  # (B, 2R)
    there = (wanted >= 0) & (wanted < mask.sum(dim=1, keepdim=True)) & marked
    columns = in_order.gather(1, wanted.clamp(0, mask.shape[1] - 1))
    rows = torch.arange(mask.shape[0], device=rank.device).unsqueeze(1)
    neighbours = torch.where(there.unsqueeze(-1), vectors[rows, columns], 0.0).flatten(1)
    state = torch.where(marked, states[rows, column].squeeze(1), 0.0)
    return state, neighbours, marked


# The variational network q(z | w, m, c) of the LMC (the paper's appendix, "Architecture").


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

    With `masked_span_dim` what a gap reader finds next to the mark of a gap is added to h_joint.

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
        self.mask_id = config.mask_id
        self.masked_span_reader = MaskedSpanReader(config) if config.masked_span_dim else None

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
        if self.masked_span_reader is not None and not isinstance(
            windows, Batch
        ):  # the objective marks no gaps
            state, neighbours, marked = around_span(
                windows, states, vectors, mask_id=self.mask_id, reach=self.masked_span_reader.reach
            )
            added = self.masked_span_reader(joint, self.dropout(state), neighbours)
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
