"""The agreement term: two places of one word or phrase, its name hidden in both, should mean the same, and so should
its words.

Not in the paper; unsupervised like the rest. It makes the posterior say what a gap in a text means, and the phrase
network say where a phrase that may never have been seen would fit.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.model import NULL_METADATA, Windows
from lmcells.model.gaussian import at_least_float32, full_precision
from lmcells.training.device_corpus import Chunk, chance, take
from lmcells.training.sampler import Sampler
from lmcells.training.spans import DrawnSpans

# Symmetric InfoNCE between two sets of directions, with one table of similarities and no more.
#
# For rows a_i and b_j of length 1, e_ij = exp((a_i . b_j - 1) / t) is never above 1, so no maximum has to be looked for:
#
#     loss = 1/2n sum_i [ (1 - a_i . b_i) / t + log sum_j e_ij ] + the same over columns
#
# and with r and c the sums of rows and columns, its gradient needs two products with the table and no other pass over it.
# Through `cross_entropy` the same takes six tables and three times the time.


def contrast(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    """How badly rows of two sides find their partners among all of the other side: (n, d), (n, d) -> scalar.

    Rows must be of length 1. log(n) is the value of guessing.
    """
    loss: Tensor = _Contrast.apply(one, other, temperature)  # type: ignore[no-untyped-call]
    return loss


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, temperature: float) -> Tensor:
        n = one.shape[0]
        with _TensorCores():
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
        with _TensorCores():
            across, scaled = (table @ torch.cat([other, other * of_columns], dim=1)).chunk(2, dim=1)
            down, scaled_down = (table.T @ torch.cat([one, one * of_rows], dim=1)).chunk(2, dim=1)
        scale = gradient / (ctx.temperature * one.shape[0])
        d_one = (of_rows * across + scaled) / 2 - other
        d_other = (of_columns * down + scaled_down) / 2 - one
        return scale * d_one, scale * d_other, None


class _TensorCores:
    """Let float32 products on a GPU round their factors to ten bits: similarities then err by a thousandth."""

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self._before)


# The agreement term: two places of one word or phrase, its name hidden in both, should mean the same, and so should
# its words.
#
# Not in the paper; unsupervised like the rest. It makes the posterior say what a gap in a text means, and the phrase
# network say where a phrase that may never have been seen would fit.


@dataclass(frozen=True, slots=True)
class MaskedSpans:
    """The masked_spans that spans leave at some places each, all first places first, and the words that were taken out."""

    windows: Windows  # k n rows
    words: Tensor  # (n, L) int32
    words_mask: Tensor  # (n, L) bool


def masked_span_windows(sampler: Sampler, chunk: Chunk, spans: DrawnSpans, *, max_words: int) -> MaskedSpans:
    """Windows of all places of each span: the span is hidden, and so are its words wherever else they stand."""
    n_places = spans.places.shape[0]
    places, lengths = spans.places.flatten(), spans.lengths.repeat(n_places)  # (k n,) each
    context, mask, segment = chunk.windows_at(places, radius=sampler.config.window, lengths=lengths)
    within = torch.arange(max_words, dtype=torch.int32, device=places.device)
    wanted = (spans.places[0].unsqueeze(1) + within).clamp_max(len(chunk) - 1)
    words, words_mask = take(chunk.tokens, wanted), within < spans.lengths.unsqueeze(1)  # (n, L) each
    for column in range(max_words):
        word, present = words[:, column].repeat(n_places), words_mask[:, column].repeat(n_places)
        mask = mask & ((context != word.unsqueeze(1)) | ~present.unsqueeze(1))
    if sampler.config.masks_span:
        context, mask = _with_mask(context, mask, gap=sampler.config.mask_id)
    windows = Windows(
        center=take(chunk.tokens, places),
        metadata=sampler.metadata_of(segment),
        context=context,
        context_mask=mask,
        center_mask=torch.zeros_like(places, dtype=torch.bool),
    )
    return MaskedSpans(windows, words, words_mask)


def obscured(
    masked_spans: MaskedSpans, sampler: Sampler, *, mask_rate: float, null_rate: float
) -> MaskedSpans:
    """Hide some words around the masked_spans, and withhold the section of some: what remains must say enough."""
    windows, generator = masked_spans.windows, sampler.generator
    mask, metadata = windows.context_mask, windows.metadata
    if mask_rate > 0:
        is_mask = windows.context == sampler.config.mask_id
        mask = mask & (is_mask | ~chance(mask_rate, mask.shape, generator))
    if null_rate > 0 and metadata is not None:
        metadata = metadata.masked_fill(chance(null_rate, metadata.shape, generator), NULL_METADATA)
    return replace(masked_spans, windows=replace(windows, context_mask=mask, metadata=metadata))


def _with_mask(context: Tensor, mask: Tensor, *, gap: int) -> tuple[Tensor, Tensor]:
    """Put the mark between the words before and after: (B, 2S) -> (B, 2S + 1)."""
    (before, after), (was, will_be) = context.chunk(2, dim=1), mask.chunk(2, dim=1)
    mark = context.new_full((context.shape[0], 1), gap)
    return torch.cat([before, mark, after], dim=1), torch.cat(
        [was, torch.ones_like(mark).bool(), will_be], dim=1
    )


def contrastive_loss(means: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between posterior means of first and second places: (2n, d) -> scalar.

    Each must find its partner among all of the other side, by the cosine of means less their average. log(n) is
    the value of guessing.
    """
    with full_precision(means):
        first, second = _centered(means).chunk(2)  # (n, d) each
        return contrast(first, second, temperature=temperature)


def phrase_loss(means: Tensor, phrases: Tensor, *, temperature: float) -> Tensor:
    """The same between the masked_spans and the words that were taken out of them: (2n, d), (n, d) -> scalar."""
    with full_precision(means):
        first, second = _centered(means).chunk(2)
        words = _centered(phrases)
        return (
            contrast(first, words, temperature=temperature) + contrast(second, words, temperature=temperature)
        ) / 2


def _centered(means: Tensor) -> Tensor:
    means = at_least_float32(means)
    return functional.normalize(means - means.mean(dim=0), dim=-1)
