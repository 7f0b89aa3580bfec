"""The networks: q(z | w, m, c) of the LMC (the paper's appendix, "Architecture") and q(z | w, c) of BSG, their priors
p(z | w, m) and p(z | w), and the phrase network.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.model.batch import Batch, SectionDraws, Windows, or_null
from lmcells.model.config import ModelConfig
from lmcells.model.gaussian import Gaussian, at_least_float32
from lmcells.model.moments import Moments, blocked_moments, mixture_moments
from lmcells.model.recurrence import BidirectionalLstm

_VALUES = 1 << 16  # of two random bytes
LOG_VARIANCES = (-3.5, -1.5)  # of BSG at the start


class Dropout(nn.Dropout):
    """`nn.Dropout`, but with two random bytes per value on the CPU, where torch's draws took an eighth of a step.

    The rate is then rounded to a multiple of 2^-16, and kept values are scaled by the rounded rate.
    """

    def forward(self, values: Tensor) -> Tensor:
        of_torch = values.device.type != "cpu" or torch.compiler.is_compiling() or self.p == 1
        if not self.training or of_torch:
            return super().forward(values)
        kept, scale = self.draw(values.shape)
        return values if kept is None else values * torch.mul(kept, scale).to(values.dtype)

    def draw(self, shape: torch.Size) -> tuple[Tensor | None, float]:
        """Which values of this shape are kept, and what they are multiplied by; None keeps all. On the CPU."""
        n, n_dropped = shape.numel(), min(round(self.p * _VALUES), _VALUES - 1) if self.training else 0
        if n_dropped == 0:
            return None, 1.0
        drawn = torch.empty((n + 3) // 4, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
        kept = drawn.view(torch.int16)[:n] >= n_dropped - _VALUES // 2  # of uniform int16, four in each draw
        return kept.view(shape), _VALUES / (_VALUES - n_dropped)


def embed_metadata(table: nn.Embedding, metadata: Tensor) -> Tensor:
    """Rows of `table`, zero where metadata is null: (...) -> (..., D)."""
    return torch.where((metadata >= 0).unsqueeze(-1), table(metadata.clamp_min(0)), 0.0)


def attend(query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and weighted mean of the present states: (B, D), (B, T, D), (B, T) -> (B, T), (B, D).

    softmax(query . states / sqrt(D)), absent positions excluded. A zero query weighs the present states equally;
    where none is present, weights and mean are zero.
    """
    scores = torch.matmul(states, query.unsqueeze(-1)).squeeze(-1)  # (B, T, D), (B, D) -> (B, T)
    scores = at_least_float32(scores) / math.sqrt(query.shape[-1])
    lowest = torch.finfo(
        scores.dtype
    ).min  # not -inf: the softmax of a row without present states would be NaN
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    mean = torch.matmul(weights.to(states.dtype).unsqueeze(-2), states).squeeze(-2)  # -> (B, D)
    return weights, mean


class GaussianHeads(nn.Module):
    """Two linear heads: mean (d) and log-variance (1)."""

    def __init__(self, hidden_dim: int, *, cell_dim: int) -> None:
        super().__init__()
        self.mean = nn.Linear(hidden_dim, cell_dim)
        self.log_variance = nn.Linear(hidden_dim, 1)

    def forward(self, hidden: Tensor) -> Gaussian:
        return Gaussian(self.mean(hidden), self.log_variance(hidden).squeeze(-1))  # (..., H) -> (...)


@dataclass(frozen=True, slots=True)
class Posterior:
    """q(z | w, m, c), and the weights behind it."""

    cell: Gaussian  # (B,)
    gate: Tensor  # (B,) weight of the metadata; the context has the rest
    attention: Tensor  # (B, 2S) weights of the context positions, zero where absent


class ContextEncoder(nn.Module):
    """A bi-LSTM over [E_c ; E_w] at each context position: the center is tiled along its context.

    Dropout applies to each embedding when it is looked up, so to the center's once per row.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.n_read, config.embedding_dim)
        self.lstm = BidirectionalLstm(2 * config.embedding_dim, hidden_dim=config.lstm_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, windows: Windows) -> tuple[Tensor, Tensor]:
        """States, and the vectors that were read: -> (B, 2S, 2H), (B, 2S, E)."""
        n_rows, n_steps = windows.context.shape
        ids = torch.cat(
            [windows.context.flatten(), windows.center]
        )  # one lookup, so the table has one gradient
        vectors: Tensor = self.dropout(self.words(ids))
        context, center = vectors.split_with_sizes([n_rows * n_steps, n_rows])  # (B * 2S, E), (B, E)
        if windows.center_mask is not None:
            center = torch.where(windows.center_mask.unsqueeze(-1), center, 0.0)
        context = context.view(n_rows, n_steps, self.words.embedding_dim)
        states: Tensor = self.lstm(context, windows.context_mask, constant=center)
        return states, context


class VariationalNetwork(nn.Module):
    """Bi-LSTM over the context, attention queried by the metadata, and a gate that mixes both.

    h_joint = p_m E_m + (1 - p_m) h_word, where (p_m, 1 - p_m) = softmax(tanh(two scores)), which keeps each
    weight above 1 / (1 + e^2) = 0.12. With `masked_span_dim`, the output of a `MaskedSpanReader` is added to h_joint.

    Null values: without metadata its weight is 0, even if `gate` is given, and the attention is uniform over the
    present words (E_m is zero). Without context h_word is zero, and the gate weighs it as usual.
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
        """One posterior per row; `gate`, a number or (B,), replaces the learnt weight of the metadata."""
        states, vectors = self.context(windows)  # (B, 2S, 2H), (B, 2S, E)
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=windows.center.device)
        section = embed_metadata(self.metadata, metadata)  # E_m: (B, 2H)
        attention, summary = attend(section, states, windows.context_mask)  # (B, 2S), h_word: (B, 2H)
        learnt = self._learnt_gate(section, summary)  # (B,)
        weight = learnt if gate is None else _broadcast(gate, like=learnt)
        weight = weight.masked_fill(metadata < 0, 0.0)
        joint = torch.lerp(at_least_float32(summary), at_least_float32(section), weight.unsqueeze(-1))
        joint = self.dropout(joint)
        reader = self.masked_span_reader
        if reader is not None and not isinstance(windows, Batch):  # the objective masks no spans
            state, neighbours, has_mask = around_span(
                windows, states, vectors, mask_id=self.mask_id, reach=reader.reach
            )
            joint = joint + torch.where(has_mask, reader(joint, self.dropout(state), neighbours), 0.0)
        return Posterior(self.heads(joint), weight, attention)

    def _learnt_gate(self, section: Tensor, summary: Tensor) -> Tensor:
        """p_m: (B, 2H), (B, 2H) -> (B,)."""
        scores = self.gate(self.dropout(torch.cat([section, summary], dim=-1)))  # (B, 4H) -> (B, 2)
        for_metadata, for_context = at_least_float32(scores).tanh().unbind(dim=-1)
        return torch.sigmoid(for_metadata - for_context)  # the softmax of two scores


def _broadcast(gate: float | Tensor, *, like: Tensor) -> Tensor:
    if not isinstance(gate, Tensor) and not 0 <= gate <= 1:
        raise ValueError(f"gate is {gate!r}; allowed: a weight from 0 (context only) to 1 (metadata only).")
    return torch.as_tensor(gate, dtype=like.dtype, device=like.device).expand(like.shape)


class MaskedSpanReader(nn.Module):
    """U ReLU(V [h_joint ; h_mask ; E_-R .. E_-1 ; E_1 .. E_R] + b), added to h_joint; R is `masked_span_reach`.

    h_mask is the state of the bi-LSTM at the masked span, where the words before and after it meet; E are the
    vectors of the present words nearest to it, zero where there is none. Not in the paper, whose attention can hardly
    tell the words next to the center from those ten words away.
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


def around_span(
    windows: Windows, states: Tensor, vectors: Tensor, *, mask_id: int, reach: int
) -> tuple[Tensor, Tensor, Tensor]:
    """State at the masked span, vectors of its neighbours, and which rows have a masked span.

    (B, T, 2H), (B, T, E) -> (B, 2H), (B, 2RE), (B, 1) bool; zero where there is nothing.
    """
    mask = windows.context_mask
    is_mask = (windows.context == mask_id) & mask  # (B, T)
    has_mask = is_mask.any(dim=1, keepdim=True)  # (B, 1)
    column = is_mask.int().argmax(dim=1, keepdim=True)  # (B, 1)
    in_order = torch.argsort(~mask, dim=1, stable=True)  # present words first, in the order of the text
    rank = (mask.cumsum(dim=1) - 1).gather(1, column)  # (B, 1)
    wanted = rank + neighbour_offsets(reach, device=rank.device)  # (B, 2R)
    there = (wanted >= 0) & (wanted < mask.sum(dim=1, keepdim=True)) & has_mask
    columns = in_order.gather(1, wanted.clamp(0, mask.shape[1] - 1))
    rows = torch.arange(mask.shape[0], device=rank.device).unsqueeze(1)
    neighbours = torch.where(there.unsqueeze(-1), vectors[rows, columns], 0.0).flatten(1)
    state = torch.where(has_mask, states[rows, column].squeeze(1), 0.0)
    return state, neighbours, has_mask


def neighbour_offsets(reach: int, *, device: torch.device) -> Tensor:
    """-R to -1 and 1 to R, created on the device: a captured step cannot copy to it."""
    offsets = torch.arange(2 * reach, device=device)
    return offsets - reach + (offsets >= reach)


class SkipGramNetwork(nn.Module):
    """q(z | w, c): the attention's query is a parameter, there is no gate, and h_joint is h_word."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.context = ContextEncoder(config)
        bound = 1 / math.sqrt(config.metadata_dim)  # as torch initialises a linear layer with one output
        self.query = nn.Parameter(torch.empty(config.metadata_dim).uniform_(-bound, bound))
        self.heads = GaussianHeads(config.metadata_dim, cell_dim=config.cell_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:  # noqa: ARG002
        states, _ = self.context(windows)  # (B, 2S, 2H)
        query = self.query.expand(states.shape[0], -1)  # (2H,) -> (B, 2H)
        attention, summary = attend(query, states, windows.context_mask)  # (B, 2S), (B, 2H)
        no_gate = attention.new_zeros(attention.shape[0])
        return Posterior(self.heads(self.dropout(summary)), no_gate, attention)


class ModelNetwork(nn.Module):
    """p(z | w, m): h = ReLU(W [R_w ; R_m] + b), then a mean and a log-variance. Null metadata is R_m = 0."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.n_words, config.embedding_dim)
        self.metadata = nn.Embedding(config.n_metadata, config.embedding_dim)
        self.hidden = nn.Linear(2 * config.embedding_dim, config.hidden_dim)
        self.heads = GaussianHeads(config.hidden_dim, cell_dim=config.cell_dim)
        self.dropout = Dropout(config.dropout)
        self.hidden_dropout = Dropout(config.dropout if config.hidden_dropout else 0.0)

    def forward(self, words: Tensor, metadata: Tensor | None) -> Gaussian:
        """One Gaussian for each pair of ids, both of the same shape; metadata below 0, or None, is null."""
        return self.of_vectors(self.words(words), metadata)

    def of_vectors(self, vectors: Tensor, metadata: Tensor | None) -> Gaussian:
        """The same for word vectors (..., E), such as the mean of a phrase's words."""
        metadata = or_null(metadata, shape=vectors.shape[:-1], device=vectors.device)
        joined = torch.cat([vectors, embed_metadata(self.metadata, metadata)], dim=-1)  # (..., 2E)
        hidden = self.hidden(self.dropout(joined)).relu()
        gaussian: Gaussian = self.heads(self.hidden_dropout(hidden))
        return gaussian

    def project(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """W_w R_w + b of word vectors and W_m R_m of all metadata, so that h = ReLU of their sum: (U, H), (M, H).

        Each table is projected once, with one dropout mask.
        """
        for_words, for_metadata = self.hidden.weight.chunk(2, dim=1)  # (H, E) each
        from_words = functional.linear(self.dropout(words), for_words, self.hidden.bias)
        return from_words, functional.linear(self.dropout(self.metadata.weight), for_metadata)

    def moments(self, draws: SectionDraws, *, variance_floor: float) -> Moments:
        """The moment table of a step: a row for each word of `draws`, a mixture over its drawn sections.

        The dropout of h is drawn for each word and drawn section.
        """
        sections = draws.sections
        if sections is None:
            raise ValueError("draws.sections is None; the LMC needs sections (U, n) drawn for every row.")
        words = self.words.weight if draws.words is None else self.words(draws.words)  # (U, E)
        from_words, from_metadata = self.project(words)  # (U, H), (M, H)
        if sections.device.type == "cpu" and not torch.compiler.is_compiling():
            kept, scale = self.hidden_dropout.draw(torch.Size((*sections.shape, from_words.shape[1])))
            return blocked_moments(
                from_words * scale,  # as ReLU(x) times the scale
                from_metadata * scale,
                sections,
                kept,
                heads=self.heads,
                variance_floor=variance_floor,
            )
        hidden = (from_words.unsqueeze(1) + functional.embedding(sections, from_metadata)).relu()  # (U, n, H)
        # Tensor cores make the (U, n, d) means cheap, and the moments of rounded means still cancel.
        return mixture_moments(self.heads(self.hidden_dropout(hidden)), variance_floor=variance_floor)


class WordPrior(nn.Module):
    """p(z | w): a table with one Gaussian for each id. Ids from `n_words` on are those of metadata as centers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_words = config.n_words
        self.mean = nn.Embedding(config.n_centers, config.cell_dim)
        self.log_variance = nn.Embedding(config.n_centers, 1)

    def forward(self, centers: Tensor, metadata: Tensor | None = None) -> Gaussian:  # noqa: ARG002
        return Gaussian(self.mean(centers), self.log_variance(centers).squeeze(-1))

    def moments(self, draws: SectionDraws, *, variance_floor: float) -> Moments:
        """The same table as the LMC's, with mixtures of one component. `draws.sections` is not read."""
        if draws.words is None:
            words = Gaussian(self.mean.weight[: self.n_words], self.log_variance.weight[: self.n_words, 0])
        else:
            words = self(draws.words)
        component = Gaussian(words.mean.unsqueeze(1), words.log_variance.unsqueeze(1))  # (U, 1, d)
        return mixture_moments(component, variance_floor=variance_floor)


class PhraseNetwork(nn.Module):
    """The meaning of a phrase from its words alone, in the space of posterior means; word order is not read.

    x = sum of a_i E_i with a = softmax(s . E_i); mean = V ReLU(U x + b) + c. Not in the paper, where a long form is the
    mean of its words' vectors: the contrastive loss trains this mean to lie near the posterior of the masked phrase.
    """

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
