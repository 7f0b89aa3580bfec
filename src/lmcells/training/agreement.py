"""The agreement term: two places of one word, its name hidden in both, should mean the same.

Not in the paper; unsupervised like the rest. Measured: ten to fifteen points of zero-shot accuracy, on acronyms
never seen as well, because it makes the posterior say what a gap in a text means.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.model import Windows
from lmcells.model.precision import at_least_float32, full_precision
from lmcells.training.device_corpus import Chunk
from lmcells.training.draws import take, uniform_below
from lmcells.training.sampler import Sampler


@dataclass(frozen=True, slots=True)
class WordPlaces:
    """Where the words of a chunk stand that occur often enough, and how likely each is to be drawn."""

    places: Tensor  # (n,) int32, all places of the chunk grouped by word
    offsets: Tensor  # (E,) int32, where each word's places begin
    counts: Tensor  # (E,) int32
    weights: Tensor  # (E,) float32

    @classmethod
    def of_chunk(cls, chunk: Chunk, *, n_words: int, min_count: int, exponent: float) -> Self:
        """Group a chunk by word. It waits for the device, once a chunk."""
        counts = torch.bincount(chunk.tokens, minlength=n_words)
        offsets = counts.cumsum(0) - counts
        frequent = (counts >= min_count).nonzero().squeeze(1)
        return cls(
            places=torch.sort(chunk.tokens, stable=True).indices.to(torch.int32),
            offsets=offsets[frequent].to(torch.int32),
            counts=counts[frequent].to(torch.int32),
            weights=counts[frequent].float() ** exponent,
        )

    def draw_pairs(self, n_words: int, generator: torch.Generator) -> Tensor:
        """Two different places of each of up to `n_words` different words: -> (2, n).

        Words are drawn by weight without replacement: those with the least of exponential times / weight
        (Efraimidis and Spirakis 2006).
        """
        times = torch.empty_like(self.weights).exponential_(generator=generator) / self.weights
        rows = times.topk(min(n_words, times.shape[0]), largest=False, sorted=False).indices
        counts, offsets = take(self.counts, rows), take(self.offsets, rows)  # (n,) each
        first = uniform_below(counts, generator)
        second = (first + 1 + uniform_below(counts - 1, generator)) % counts
        return take(self.places, offsets + torch.stack([first, second]))


def paired_windows(sampler: Sampler, chunk: Chunk, pairs: Tensor) -> Windows:
    """Windows of both places of each word, first places first: (2, n) -> 2n rows.

    The center is hidden, and so is the word wherever it stands in its own window.
    """
    places = pairs.flatten()
    context, mask, segment = chunk.windows_at(places, radius=sampler.config.window)
    center = take(chunk.tokens, places)
    return Windows(
        center=center,
        metadata=sampler.metadata_of(segment),
        context=context,
        context_mask=mask & (context != center.unsqueeze(1)),
        center_mask=torch.zeros_like(center, dtype=torch.bool),
    )


def agreement_loss(means: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between posterior means of first and second places: (2n, d) -> scalar.

    Each must find its partner among all of the other side, by the cosine of means less their average. log(n) is
    the value of guessing.
    """
    with full_precision(means):
        means = at_least_float32(means)
        first, second = functional.normalize(means - means.mean(dim=0), dim=-1).chunk(2)  # (n, d) each
        similarity = first @ second.T / temperature  # (n, n)
        partner = torch.arange(similarity.shape[0], device=similarity.device)
        forth = functional.cross_entropy(similarity, partner)
        back = functional.cross_entropy(similarity.T, partner)
        return (forth + back) / 2
