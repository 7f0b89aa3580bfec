"""The corpus on a device: flat arrays to gather from, and distributions to draw from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import MAX_PER_WORD, Corpus, occurrence_metadata, subsample
from lmcells.errors import ConfigError
from lmcells.training.settings import TrainingSettings

BLOCK_TOKENS = 1 << 20

TokenRange = tuple[int, int]  # first token, and the one after the last
TokenRanges = tuple[TokenRange, ...]


def divide(
    corpus: Corpus, *, n_shards: int, chunk_tokens: int, block_tokens: int = BLOCK_TOKENS
) -> tuple[tuple[TokenRanges, ...], ...]:
    """Cut a corpus into shards of nearly equal size, each into chunks of at most about `chunk_tokens`.

    Blocks of whole segments are dealt out in turn, so that every chunk is a sample of the whole corpus. Returns the
    ranges of each chunk of each shard.
    """
    token_segment = corpus.token_segment
    n_tokens = int(corpus.tokens.size)
    n_chunks = max(1, -(-n_tokens // (n_shards * chunk_tokens)))
    n_parts = n_shards * n_chunks
    n_blocks = n_parts * max(1, round(n_tokens / n_parts / block_tokens))
    evenly = np.linspace(0, n_tokens, n_blocks + 1).astype(np.int64)
    # Move each border back to the start of its segment.
    borders = [int(np.searchsorted(token_segment, token_segment[at])) for at in evenly[1:-1]]
    blocks = list(pairwise([0, *borders, n_tokens]))
    parts = [tuple(each for each in blocks[part::n_parts] if each[0] < each[1]) for part in range(n_parts)]
    if not all(parts):
        raise ConfigError(
            f"{corpus.folder} has too few segments ({corpus.manifest.sizes['n_segments']:,}) for {n_shards} shards "
            f"of {n_chunks} chunks each. Use fewer processes or shards, or larger chunk_tokens."
        )
    return tuple(tuple(parts[shard::n_shards]) for shard in range(n_shards))


# Draws have static shapes and never wait for the device.


def uniform_below(sizes: Tensor, generator: torch.Generator) -> Tensor:
    """A uniform index below each size: (...) -> (...) int32. Uniform for sizes far below 2^24."""
    chances = torch.rand(sizes.shape, generator=generator, device=sizes.device)
    return torch.minimum((chances * sizes).to(torch.int32), sizes - 1)


def chance(rate: float, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """True at the given rate: (...) bool."""
    return torch.rand(shape, generator=generator, device=generator.device) < rate


def take(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]` for int32 or int64 indices of any shape: (N,), (...) -> (...)."""
    return values.index_select(0, index.reshape(-1)).view(index.shape)


@dataclass(frozen=True, slots=True)
class AliasTable:
    """A distribution over 0..n-1, drawn in constant time (Walker 1977; built as Vose 1991 does).

    A slot is drawn uniformly, then either it or its alias.
    """

    threshold: Tensor  # (n,) float32, chance of the slot itself
    alias: Tensor  # (n,) int32

    @classmethod
    def of_weights(cls, weights: npt.NDArray[np.float64], *, device: torch.device) -> Self:
        """Build the table from weights, which need not add up to one."""
        n = weights.size
        threshold = weights * (n / weights.sum())
        alias = np.arange(n, dtype=np.int32)
        chances = threshold.tolist()
        small = [slot for slot, value in enumerate(chances) if value < 1]
        large = [slot for slot, value in enumerate(chances) if value >= 1]
        while small and large:
            lacking, giving = small.pop(), large[-1]
            alias[lacking] = giving
            chances[giving] -= 1 - chances[lacking]
            if chances[giving] < 1:
                small.append(large.pop())
        for slot in small + large:  # 1 up to rounding
            chances[slot] = 1.0
        return cls(
            torch.tensor(chances, dtype=torch.float32, device=device), torch.from_numpy(alias).to(device)
        )

    def draw(self, shape: tuple[int, ...] | torch.Size, generator: torch.Generator) -> Tensor:
        """Independent draws: -> `shape`, int32."""
        device = self.alias.device
        slots = torch.randint(
            self.alias.shape[0], shape, generator=generator, device=device, dtype=torch.int32
        )
        own = torch.rand(shape, generator=generator, device=device) < take(self.threshold, slots)
        return torch.where(own, slots, take(self.alias, slots))


@dataclass(frozen=True, slots=True)
class OccurrenceSections:
    """Draws from beta(m | w): the section of a random occurrence of w.

    At most 65,536 occurrences of a word are kept, spread evenly through the corpus: that bounds the array, and float32
    can draw an index uniformly. Add-k smoothing is a uniform section with probability k M / (count + k M), where count
    is that of all occurrences.
    """

    sections: Tensor  # (N,) int32, word after word
    offsets: Tensor  # (V,) int32 or int64, where each word's begin
    sizes: Tensor  # (V,) int32, how many it has
    uniform_rate: Tensor | None  # (V,) float32, chance of a uniform section; None without smoothing
    n_metadata: int

    @classmethod
    def of_corpus(cls, corpus: Corpus, *, kind: str, smoothing: float, device: torch.device) -> Self:
        """Gather the sections of all occurrences, at most `MAX_PER_WORD` per word."""
        counts = np.asarray(corpus.word_counts, np.int64)
        sizes = np.minimum(counts, MAX_PER_WORD)
        offsets = np.cumsum(sizes) - sizes
        n_metadata = corpus.n_metadata(kind)
        uniform_rate = None
        if smoothing > 0:
            added = smoothing * n_metadata
            uniform_rate = torch.from_numpy((added / (counts + added)).astype(np.float32)).to(device)
        sections = occurrence_metadata(corpus, kind)
        return cls(
            sections=torch.from_numpy(sections).to(device),
            offsets=torch.from_numpy(offsets).to(device),
            sizes=torch.from_numpy(sizes.astype(np.int32)).to(device),
            uniform_rate=uniform_rate,
            n_metadata=n_metadata,
        )

    def draw(self, words: Tensor | None, *, n_draws: int, generator: torch.Generator) -> Tensor:
        """Sections of each word, or of the whole vocabulary: (U,) -> (U, n) int32."""
        offsets, sizes, rate = self.offsets, self.sizes, self.uniform_rate
        if words is not None:
            offsets, sizes = take(offsets, words), take(sizes, words)
            rate = None if rate is None else take(rate, words)
        shape = (sizes.shape[0], n_draws)
        drawn = offsets.unsqueeze(1) + uniform_below(sizes.unsqueeze(1).expand(shape), generator)  # (U, n)
        sections = take(self.sections, drawn)
        if rate is None:
            return sections
        uniform = torch.randint(
            self.n_metadata, shape, generator=generator, device=sections.device, dtype=torch.int32
        )
        chances = torch.rand(shape, generator=generator, device=sections.device)
        return torch.where(chances < rate.unsqueeze(1), uniform, sections)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of the subsampled corpus: whole segments, in order."""

    tokens: Tensor  # (n,) int32 word ids
    segments: Tensor  # (n,) int32, the segment of each

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @classmethod
    def load(
        cls, corpus: Corpus, ranges: TokenRanges, *, settings: TrainingSettings, device: torch.device
    ) -> Self:
        """Read and subsample parts of a corpus. Whether a token is kept depends only on the seed and its position."""
        pieces = list(subsample(corpus, threshold=settings.subsampling, seed=settings.seed, ranges=ranges))
        return cls(*(join_on_device(arrays, device) for arrays in zip(*pieces, strict=True)))

    def windows_at(
        self, positions: Tensor, *, radius: int, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Context, its mask, and the segment, of the centers at `positions`: (B,) -> (B, 2S), (B, 2S), (B,).

        With `lengths` (B,) centers are spans of so many words, and the context continues after the last one. An absent
        position holds whatever word is there: if it were always word 0, that word's gradient would be a bottleneck.
        """
        offsets = torch.arange(-radius, radius, device=positions.device, dtype=positions.dtype)
        offsets = torch.where(offsets < 0, offsets, offsets + 1)  # (2S,) without the center itself
        wanted = positions.unsqueeze(1) + offsets  # (B, 2S)
        if lengths is not None:
            wanted = torch.where(offsets > 0, wanted + (lengths - 1).unsqueeze(1), wanted)
        inside = wanted.clamp(0, len(self) - 1)
        segment = take(self.segments, positions)
        mask = (take(self.segments, inside) == segment.unsqueeze(1)) & (inside == wanted)
        return take(self.tokens, inside), mask, segment


def join_on_device(pieces: Sequence[npt.NDArray[np.integer]], device: torch.device) -> Tensor:
    """Copy arrays one after another into one int32 tensor on a device, without joining them in host memory."""
    joined = torch.empty(sum(piece.size for piece in pieces), dtype=torch.int32, device=device)
    parts = torch.split(joined, [piece.size for piece in pieces])
    for part, piece in zip(parts, pieces, strict=True):
        part.copy_(torch.from_numpy(np.asarray(piece, np.int32)))
    return joined


def to_device(values: npt.NDArray[np.integer | np.bool_], device: torch.device) -> Tensor:
    """An int32 copy on a device; copying to a GPU is asynchronous."""
    tensor = torch.from_numpy(np.array(values, np.int32))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
