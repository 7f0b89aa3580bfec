"""Spans (words and recurring phrases of a text, drawn by frequency), windows in which they are masked, and their loss.

The contrastive loss: the posteriors of two masked occurrences of a span must find each other among those of other
spans, and so must the posteriors and the phrase network's mean of the masked words. Not in the paper; unsupervised like
the rest. It teaches the posterior what a masked span means, and the phrase network where a phrase, perhaps one never
seen, would fit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.model import NULL_METADATA, ModelConfig, Windows
from lmcells.model.gaussian import at_least_float32, full_precision
from lmcells.notes.tokens import STOP_WORDS
from lmcells.training.device_corpus import Chunk, chance, take, uniform_below
from lmcells.training.settings import TrainingSettings

_MIX = 0x9E3779B97F4A7C1  # odd, so that multiplying by it modulo 2^64 is invertible

Occurrences = tuple[Tensor, Tensor]
"""Where k occurrences of each of n spans begin, (k, n) int32, and how many words each span has, (n,) int32."""


@dataclass(frozen=True, slots=True)
class MaskedSpans:
    """Windows around masked spans, all first occurrences before all second ones, and the words that were masked."""

    windows: Windows  # k n rows
    words: Tensor  # (n, L) int32
    words_mask: Tensor  # (n, L) bool


@dataclass(frozen=True, slots=True)
class Spans:
    """The frequent words and phrases of a chunk: where they occur, and how likely each is to be drawn."""

    chunk: Chunk
    max_words: int  # L
    positions: Tensor  # (p,) int32, all occurrences grouped by span
    offsets: Tensor  # (U,) int32, where each span's occurrences begin
    counts: Tensor  # (U,) int32
    lengths: Tensor  # (U,) int32, in words
    keys: Tensor  # (U,) int64, hashes of the words
    weights: Tensor  # (U,) float32; 0 for spans that begin or end with a stop word
    n_drawn: int  # spans that can be drawn

    def __len__(self) -> int:
        return self.counts.shape[0]

    @classmethod
    def of_training(
        cls, chunk: Chunk, *, settings: TrainingSettings, stop_words: Tensor | None = None
    ) -> Self:
        """The spans that training with these settings draws from."""
        min_count, exponent = settings.contrastive_min_count, settings.contrastive_exponent
        max_words = settings.contrastive_max_words
        return cls.of_chunk(
            chunk, min_count=min_count, max_words=max_words, exponent=exponent, stop_words=stop_words
        )

    @classmethod
    def of_chunk(
        cls,
        chunk: Chunk,
        *,
        min_count: int,
        max_words: int = 1,
        exponent: float = 0.5,
        stop_words: Tensor | None = None,
    ) -> Self:
        """Group a chunk by words and by phrases of up to `max_words`. Waits for the device, once per chunk.

        Spans that begin or end with one of `stop_words`, given as ids, are never drawn.
        """
        groups = [_group(chunk, n_words, min_count=min_count) for n_words in range(1, max_words + 1)]
        positions, counts, lengths, keys = (torch.cat(parts) for parts in zip(*groups, strict=True))
        offsets = (counts.cumsum(0) - counts).to(torch.int32)
        weights = counts.float() ** exponent
        if stop_words is not None:
            first = positions[offsets]
            ends = torch.isin(chunk.tokens[torch.stack([first, first + lengths - 1])], stop_words)  # (2, U)
            weights = weights.masked_fill(ends.any(dim=0), 0.0)
        n_drawn = int(weights.count_nonzero())
        return cls(chunk, max_words, positions, offsets, counts, lengths, keys, weights, n_drawn)

    def draw(self, n_spans: int, generator: torch.Generator) -> Occurrences:
        """Draw up to `n_spans` spans by weight without replacement, and two occurrences of each.

        The spans with the smallest exponential draw / weight (Efraimidis and Spirakis 2006).
        """
        times = torch.empty_like(self.weights).exponential_(generator=generator) / self.weights
        rows = times.topk(min(n_spans, self.n_drawn), largest=False, sorted=False).indices
        counts, offsets = take(self.counts, rows), take(self.offsets, rows)  # (n,) each
        first = uniform_below(counts, generator)
        second = (first + 1 + uniform_below(counts - 1, generator)) % counts
        positions = take(self.positions, offsets + torch.stack([first, second]))
        return positions, take(self.lengths, rows)

    def masked(
        self, occurrences: Occurrences, *, config: ModelConfig, segment_metadata: Tensor | None
    ) -> MaskedSpans:
        """Windows around occurrences; the words of a span are masked wherever they occur in its window."""
        chunk, (of_spans, of_words) = self.chunk, occurrences
        n_each = of_spans.shape[0]
        positions, lengths = of_spans.flatten(), of_words.repeat(n_each)  # (k n,) each
        context, mask, segment = chunk.windows_at(positions, radius=config.window, lengths=lengths)
        within = torch.arange(self.max_words, dtype=torch.int32, device=positions.device)
        wanted = (of_spans[0].unsqueeze(1) + within).clamp_max(len(chunk) - 1)
        words, words_mask = take(chunk.tokens, wanted), within < of_words.unsqueeze(1)  # (n, L) each
        for column in range(self.max_words):
            word, present = words[:, column].repeat(n_each), words_mask[:, column].repeat(n_each)
            mask = mask & ((context != word.unsqueeze(1)) | ~present.unsqueeze(1))
        if config.masks_span:  # a mask token between the words before and after: (B, 2S) -> (B, 2S + 1)
            (before, after), (was, will_be) = context.chunk(2, dim=1), mask.chunk(2, dim=1)
            token = context.new_full((context.shape[0], 1), config.mask_id)
            context = torch.cat([before, token, after], dim=1)
            mask = torch.cat([was, torch.ones_like(token).bool(), will_be], dim=1)
        windows = Windows(
            center=take(chunk.tokens, positions),
            metadata=None if segment_metadata is None else take(segment_metadata, segment),
            context=context,
            context_mask=mask,
            center_mask=torch.zeros_like(positions, dtype=torch.bool),
        )
        return MaskedSpans(windows, words, words_mask)


def stop_word_ids(corpus: Corpus, *, device: torch.device) -> Tensor | None:
    """The ids of the stop words; None if the corpus dropped them: "or" and "no" are then lower-cased acronyms."""
    if not corpus.reads_stop_words:
        return None
    return torch.tensor([id_ for id_, word in enumerate(corpus.words) if word in STOP_WORDS], device=device)


def span_key(words: Sequence[int]) -> int:
    """The hash of a span with these word ids."""
    key = torch.zeros((), dtype=torch.int64)
    for word in words:
        key = _extend(key, torch.tensor(word))
    return int(key)


def _extend(key: Tensor, word: Tensor) -> Tensor:
    return (key + 1 + word) * _MIX  # modulo 2^64


def _group(chunk: Chunk, n_words: int, *, min_count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positions, counts, lengths and keys of the frequent phrases of `n_words` words, none across segments."""
    n_positions = max(len(chunk) - n_words + 1, 0)
    keys = torch.zeros(n_positions, dtype=torch.int64, device=chunk.tokens.device)
    for offset in range(n_words):
        keys = _extend(keys, chunk.tokens[offset : offset + n_positions])
    inside = chunk.segments[:n_positions] == chunk.segments[n_words - 1 : n_words - 1 + n_positions]
    positions = inside.nonzero().squeeze(1)
    keys, order = torch.sort(keys[positions], stable=True)
    distinct, counts = torch.unique_consecutive(keys, return_counts=True)
    frequent = counts >= min_count
    kept = positions[order[frequent.repeat_interleave(counts)]].to(torch.int32)
    counts = counts[frequent].to(torch.int32)
    return kept, counts, torch.full_like(counts, n_words), distinct[frequent]


def add_noise(
    spans: MaskedSpans, *, mask_id: int, settings: TrainingSettings, generator: torch.Generator
) -> MaskedSpans:
    """Mask some words around the masked spans, cut some windows short and drop some sections, so that the model learns
    to do without them."""
    windows = spans.windows
    mask, metadata = windows.context_mask, windows.metadata
    if settings.contrastive_mask_rate > 0:
        is_masked = chance(settings.contrastive_mask_rate, mask.shape, generator)
        mask = mask & ((windows.context == mask_id) | ~is_masked)
    if settings.contrastive_cut_rate > 0:
        mask = mask & _within_reach(mask, rate=settings.contrastive_cut_rate, generator=generator)
    if settings.contrastive_null_rate > 0 and metadata is not None:
        is_null = chance(settings.contrastive_null_rate, metadata.shape, generator)
        metadata = metadata.masked_fill(is_null, NULL_METADATA)
    return replace(spans, windows=replace(windows, context_mask=mask, metadata=metadata))


def _within_reach(mask: Tensor, *, rate: float, generator: torch.Generator) -> Tensor:
    """Cut windows short at the given rate: keep a random number of positions before and after the middle."""
    n_rows, n_columns = mask.shape
    radius = n_columns // 2
    reach = (torch.rand((2, n_rows, 1), generator=generator, device=mask.device) * (radius + 1)).int()
    reach = torch.where(chance(rate, reach.shape[1:], generator), reach, radius)  # (2, B, 1)
    columns = torch.arange(n_columns, dtype=torch.int32, device=mask.device)
    before, after = radius - columns, columns - (n_columns - 1 - radius)  # distance; 1 is next to the middle
    return (before <= reach[0]) & (after <= reach[1])


def contrastive_loss(means: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between posterior means of first and second occurrences: (2n, d) -> scalar.

    Each must find its partner among all of the other side, by the cosine of the centered means. Guessing gives log(n).
    """
    with full_precision(means):
        first, second = _centered(means).chunk(2)  # (n, d) each
        return info_nce(first, second, temperature=temperature)


def phrase_loss(means: Tensor, phrases: Tensor, *, temperature: float) -> Tensor:
    """The same between masked spans and the words that were masked: (2n, d), (n, d) -> scalar."""
    with full_precision(means):
        first, second = _centered(means).chunk(2)
        words = _centered(phrases)
        one, other = (info_nce(side, words, temperature=temperature) for side in (first, second))
        return (one + other) / 2


def _centered(means: Tensor) -> Tensor:
    means = at_least_float32(means)
    return functional.normalize(means - means.mean(dim=0), dim=-1)


def info_nce(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between two sides whose rows have length 1: (n, d), (n, d) -> scalar.

    For rows a_i and b_j, e_ij = exp((a_i . b_j - 1) / t) is never above 1, so no maximum has to be subtracted:

        loss = 1/2n sum_i [ (1 - a_i . b_i) / t + log sum_j e_ij ] + the same over columns

    With r and c the sums of rows and columns, the gradient needs two products with the table e and no other pass over
    it. Through `cross_entropy` the same takes six tables and three times the time.
    """
    loss: Tensor = _InfoNCE.apply(one, other, temperature)  # type: ignore[no-untyped-call]
    return loss


class _InfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, temperature: float) -> Tensor:
        n = one.shape[0]
        with _tensor_cores():
            least = one.new_full((1, 1), -1 / temperature)
            table = torch.addmm(least.expand(n, n), one / temperature, other.T).exp_()  # (n, n)
        rows, columns = table.sum(dim=1), table.sum(dim=0)
        misfit = (1 - (one * other).sum(dim=1)) / temperature  # (n,)
        ctx.save_for_backward(one, other, table, rows, columns)
        ctx.temperature = temperature
        return misfit.mean() + (rows.log().mean() + columns.log().mean()) / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        one, other, table, rows, columns = ctx.saved_tensors
        of_rows, of_columns = rows.reciprocal().unsqueeze(1), columns.reciprocal().unsqueeze(1)  # (n, 1)
        with _tensor_cores():
            across, scaled = (table @ torch.cat([other, other * of_columns], dim=1)).chunk(2, dim=1)
            down, scaled_down = (table.T @ torch.cat([one, one * of_rows], dim=1)).chunk(2, dim=1)
        scale = gradient / (ctx.temperature * one.shape[0])
        d_one = (of_rows * across + scaled) / 2 - other
        d_other = (of_columns * down + scaled_down) / 2 - one
        return scale * d_one, scale * d_other, None


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let float32 products on a GPU use TF32, which is off by a thousandth for similarities."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
