"""The bidirectional language model (ELMo, Peters et al. 2018): characters -> words -> states of two directions.

The backward direction is a second stack of the same kind that reads the words in reverse. Padding comes after the words
of each stack, and no stack sees what comes after, so no other mask is needed. The next word is predicted by the exact
softmax, or against a sample of the vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmcells.language_model.config import LanguageModelConfig
from lmcells.model.gaussian import at_least_float32, full_precision
from lmcells.training.device_corpus import AliasTable

PADDING = 0
FIRST_BYTE = 1  # the byte b has the id b + 1
BEGINNING, END = 257, 258
N_CHARACTERS = 259
_LOGITS_AT_ONCE = 1 << 26
_ALIGNMENT = 64  # of a row of logits: GPUs have fast matrix products for such sizes only
_NEVER = -1e30  # as a logit; -inf would have no gradient where all are -inf


def spell_out(words: Sequence[str], *, max_characters: int) -> Tensor:
    """The UTF-8 bytes of words between two boundaries: -> (words, max_characters) int16. Longer words are cut."""
    ids = np.full((len(words), max_characters), PADDING, np.int16)
    for row, word in enumerate(words):
        written = np.frombuffer(word.encode("utf-8", "replace")[: max_characters - 2], np.uint8)
        ids[row, 0] = BEGINNING
        ids[row, 1 : 1 + written.size] = written.astype(np.int16) + FIRST_BYTE
        ids[row, 1 + written.size] = END
    return torch.from_numpy(ids)


class Highway(nn.Module):
    """g * relu(W x) + (1 - g) * x, with a gate g that begins nearly closed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, values: Tensor) -> Tensor:
        gate = self.gate(values).sigmoid()
        changed: Tensor = values + gate * (functional.relu(self.change(values)) - values)
        return changed


class CharacterEncoder(nn.Module):
    """A vector for any word, seen or not: character CNN, max pooling, highways, a projection (Kim et al. 2016)."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        n_filters = sum(config.filters)
        self.characters = nn.Embedding(N_CHARACTERS, config.character_dim, padding_idx=PADDING)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.character_dim, count, width)
            for width, count in enumerate(config.filters, start=1)
            if count
        )
        self.highways = nn.Sequential(*(Highway(n_filters) for _ in range(config.highways)))
        self.projection = nn.Linear(n_filters, config.width)

    def forward(self, characters: Tensor) -> Tensor:
        """(words, max_characters) -> (words, width)."""
        read = self.characters(characters.int())  # (words, max_characters, character_dim)
        found = [self._largest(filters, read) for filters in self.filters]
        vector: Tensor = self.projection(self.highways(functional.relu(torch.cat(found, dim=-1))))
        return vector

    def _largest(self, filters: nn.Module, read: Tensor) -> Tensor:
        """The largest value of each filter over the characters: -> (words, filters).

        A convolution as one matrix product, which is faster with 16 channels.
        """
        assert isinstance(filters, nn.Conv1d)
        pieces = read.unfold(1, filters.kernel_size[0], 1).flatten(2)  # (words, positions, channels * width)
        return functional.linear(pieces, filters.weight.flatten(1), filters.bias).amax(dim=1)


class CausalAttentionLayer(nn.Module):
    """A pre-norm transformer layer: each position sees itself and those before it."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, config.feed_forward)
        self.narrow = nn.Linear(config.feed_forward, width)

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        states = states + self._dropped(self._attend(self.before_attention(states)))
        widened = functional.gelu(self.widen(self.before_feed_forward(states)))
        return states + self._dropped(self.narrow(self._dropped(widened)))

    def _attend(self, states: Tensor) -> Tensor:
        by_head = self.queries_keys_values(states).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, heads, d)
        queries, keys, values = by_head.permute(2, 0, 3, 1, 4)  # (B, heads, T, d) each
        rate = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=rate, is_causal=True)
        attended: Tensor = self.attended(found.transpose(1, 2).flatten(2))
        return attended

    def _dropped(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class TransformerStack(nn.Module):
    """Causal layers over words with sinusoidal positions."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.Sequential(*(CausalAttentionLayer(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        normed: Tensor = self.norm(self.layers(self.dropout(words + positions(words))))
        return normed


class LstmStack(nn.Module):
    """LSTM layers with residual connections from the second on, as in ELMo."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.LSTM(config.width, config.width, batch_first=True) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        states = words
        with full_precision(words):  # autocast would take fp16, whose gradients vanish, and never bf16
            for number, layer in enumerate(self.layers):
                read, _ = layer(self.dropout(states))
                states = states + read if number else read
        normed: Tensor = self.norm(states)
        return normed


class BidirectionalEncoder(nn.Module):
    """Two stacks that read the same words, one from the left and one from the right."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        stack = TransformerStack if config.kind == "transformer" else LstmStack
        self.boundaries = nn.Embedding(2, config.width)  # what each stack reads first
        self.forward_stack = stack(config)
        self.backward_stack = stack(config)

    def forward(self, words: Tensor, mirrored: Tensor) -> tuple[Tensor, Tensor]:
        """Word vectors (B, T, width) in the order of the text and in reverse -> (B, 1 + T, width) of each stack."""
        return (
            self.forward_stack(self._after_boundary(0, words)),
            self.backward_stack(self._after_boundary(1, mirrored)),
        )

    def _after_boundary(self, direction: int, words: Tensor) -> Tensor:
        boundary = self.boundaries.weight[direction].to(words.dtype).expand(words.shape[0], 1, -1)
        return torch.cat([boundary, words], dim=1)


def mirror(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first `lengths` values of each row, (B, T, ...); what comes after them stays where it is."""
    position = torch.arange(values.shape[1], device=values.device)  # (T,)
    mirrored = lengths.unsqueeze(1) - 1 - position  # (B, T)
    source = torch.where(mirrored >= 0, mirrored, position)
    return values[torch.arange(values.shape[0], device=values.device).unsqueeze(1), source]


def positions(words: Tensor) -> Tensor:
    """Sinusoidal positions (Vaswani et al. 2017): (B, T, width) -> (T, width)."""
    width = words.shape[-1]
    position = torch.arange(words.shape[1], device=words.device, dtype=torch.float32).unsqueeze(1)  # (T, 1)
    step = torch.arange(0, width, 2, device=words.device, dtype=torch.float32)
    angle = position * torch.exp(step * (-math.log(10_000.0) / width))  # (T, width / 2)
    return torch.cat([angle.sin(), angle.cos()], dim=-1).to(words.dtype)


@dataclass(frozen=True, slots=True)
class Texts:
    """Sequences of words. Each distinct word is spelt out once, however often it occurs."""

    characters: Tensor  # (distinct words, max_characters)
    index: Tensor  # (B, T) which of them; anything in the padding
    lengths: Tensor  # (B,) at least 1

    @property
    def mask(self) -> Tensor:
        """(B, T), true where there is a word."""
        return torch.arange(self.index.shape[1], device=self.index.device) < self.lengths.unsqueeze(1)

    def to(self, device: torch.device) -> Self:
        return type(self)(self.characters.to(device), self.index.to(device), self.lengths.to(device))


class LanguageModel(nn.Module):
    """Characters -> word vectors -> states of two directions -> the next word of each."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.words = CharacterEncoder(config)
        self.encoder = BidirectionalEncoder(config)
        self.vocabulary = WordTable(config.n_words, config.width)

    def forward(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """States (B, 1 + T, width) of both directions, each as it reads: a boundary, then the words."""
        spelt = at_least_float32(self.words(texts.characters))  # layers add to these: not in bf16
        index = torch.cat([texts.index, mirror(texts.index, texts.lengths)])  # (2 B, T)
        words, mirrored = functional.embedding(index, spelt).chunk(2)  # (B, T, width) each
        forward, backward = self.encoder(words, mirrored)
        return forward, backward

    def word_states(self, texts: Texts) -> Tensor:
        """Final states at each word, both directions side by side: (B, T, 2 * width)."""
        forward, backward = self(texts)
        return torch.cat([forward[:, 1:], mirror(backward[:, 1:], texts.lengths)], dim=-1)

    def mean_states(self, texts: Texts) -> Tensor:
        """ELMo_avg of the paper: the mean of the final states of a text's words, (B, 2 * width)."""
        states = self.word_states(texts).float()
        weights = texts.mask.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)

    def predictions(self, texts: Texts, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States (2 B T, width), the next words they are to predict (2 B T,), and where there is one (2 B T,) bool.

        `words` (B, T) are the vocabulary ids of the texts. All texts forward come first, then all backward. Padding is
        left in: taking it out would wait for the device to count it.
        """
        forward, backward = self(texts)
        states = torch.cat([forward[:, :-1], backward[:, :-1]])  # (2 B, T, width)
        following = torch.cat([words, mirror(words, texts.lengths)])  # (2 B, T)
        return states.flatten(0, 1), following.flatten(), texts.mask.repeat(2, 1).flatten()


class WordTable(nn.Module):
    """The output layer: a vector and a bias for each word that can be predicted."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(n_words, width)
        self.biases = nn.Embedding(n_words, 1)
        nn.init.normal_(self.vectors.weight, std=0.02)  # larger ones are noise: 0.1 nats after 150 steps
        nn.init.zeros_(self.biases.weight)

    def start_from(self, counts: npt.NDArray[np.integer]) -> None:
        """Initialise the biases with the words' frequencies, which would take a hundred steps to learn."""
        chances = np.asarray(counts, np.float64) / np.sum(counts)
        with torch.no_grad():
            self.biases.weight.copy_(torch.from_numpy(np.log(chances)).unsqueeze(1))

    def logits(self, states: Tensor) -> Tensor:
        """(N, width) -> (N, n_words)."""
        return functional.linear(states, self.vectors.weight, self.biases.weight.squeeze(1))


def negatives(
    counts: npt.NDArray[np.integer], *, exponent: float, device: torch.device
) -> tuple[AliasTable, Tensor]:
    """The distribution count^exponent, to draw from, and its logarithms: (n_words,)."""
    weights = np.asarray(counts, np.float64) ** exponent
    log_chance = torch.from_numpy(np.log(weights / weights.sum()).astype(np.float32))
    return AliasTable.of_weights(weights, device=device), log_chance.to(device)


def full_losses(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """-log p(word | state) over the whole vocabulary, a part of the logits at a time: (N, width), (N,) -> (N,)."""
    rows = max(1, _LOGITS_AT_ONCE // table.vectors.num_embeddings)
    parts = zip(torch.split(states, rows), torch.split(words, rows), strict=True)
    return torch.cat(
        [
            functional.cross_entropy(table.logits(part).float(), right, reduction="none")
            for part, right in parts
        ]
    )


def softmax_losses(table: WordTable, states: Tensor, words: Tensor) -> Tensor:
    """The same for training: in the precision of autocast, with a third of the memory traffic."""
    kind = states.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
    n_more = -table.vectors.num_embeddings % _ALIGNMENT  # words that never occur
    with full_precision(states):
        vectors = functional.pad(table.vectors.weight.to(dtype), (0, 0, 0, n_more))
        biases = functional.pad(table.biases.weight.squeeze(1).to(dtype), (0, n_more), value=-math.inf)
        losses: Tensor = _SoftmaxLosses.apply(states.to(dtype), vectors, biases, words)  # type: ignore[no-untyped-call]
    return losses


class _SoftmaxLosses(torch.autograd.Function):
    """-log softmax(states vectors' + biases) at the words; its gradient is the softmax, less 1 at the words."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, vectors: Tensor, biases: Tensor, words: Tensor) -> Tensor:
        chances = functional.linear(states, vectors, biases).softmax(dim=-1)  # (N, n_words)
        ctx.save_for_backward(states, vectors, words, chances)
        right = chances.gather(1, words.unsqueeze(1)).squeeze(1).float()
        return -right.clamp_min(torch.finfo(right.dtype).tiny).log()  # (N,)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states, vectors, words, chances = ctx.saved_tensors
        column = words.unsqueeze(1)
        errors = chances.scatter_add_(1, column, -torch.ones_like(column, dtype=chances.dtype))  # in place
        weights = gradient.to(states.dtype)  # (N,)
        of_states = (errors @ vectors) * weights.unsqueeze(1)
        of_vectors = errors.T @ (states * weights.unsqueeze(1))
        return of_states, of_vectors, weights @ errors, None


def sampled_losses(
    table: WordTable, states: Tensor, words: Tensor, *, drawn: Tensor, log_chance: Tensor
) -> Tensor:
    """-log p(word | state) with an estimate of the denominator: (N, width), (N,), (S,) -> (N,).

    Z = exp l_w + sum over v != w of exp l_v, whose sum is estimated without bias by the drawn words v_s != w as
    1/S sum exp(l_v) / q(v) (Bengio and Senecal 2003). The more are drawn, the nearer it is to `full_losses`.
    """
    drawn = drawn.long()
    correction = log_chance[drawn] + float(np.log(drawn.shape[0]))  # (S,)
    logits = functional.linear(states, table.vectors(drawn), table.biases(drawn).squeeze(1))  # (N, S)
    with full_precision(logits):
        products = states.float() * table.vectors(words)
        right: Tensor = products.sum(dim=-1) + table.biases(words).squeeze(1)  # (N,)
        others = (logits.float() - correction).masked_fill(drawn == words.unsqueeze(1), _NEVER)  # (N, S)
        return torch.logaddexp(right, others.logsumexp(dim=1)) - right
