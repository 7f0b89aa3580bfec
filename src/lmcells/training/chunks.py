"""Which part of the corpus is whose: blocks that end at segment boundaries, dealt out to shards and chunks."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError

BLOCK_TOKENS = 1 << 20

Span = tuple[int, int]  # first token, and the one after the last
Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """The corpus as shards, each as chunks, each as spans of tokens.

    Blocks are dealt out in turn, so that every chunk is a cut through the whole corpus, not one end of it.
    """

    shards: tuple[tuple[Spans, ...], ...]


def divide(corpus: Corpus, *, n_shards: int, chunk_tokens: int, block_tokens: int = BLOCK_TOKENS) -> Division:
    """Cut a corpus into shards of nearly equal size, and each into chunks of about `chunk_tokens` at most."""
    n_tokens = int(corpus.tokens.size)
    n_chunks = max(1, -(-n_tokens // (n_shards * chunk_tokens)))
    n_parts = n_shards * n_chunks
    blocks = _blocks(corpus, n_parts * max(1, round(n_tokens / n_parts / block_tokens)))
    parts = [tuple(span for span in blocks[part::n_parts] if span[0] < span[1]) for part in range(n_parts)]
    if not all(parts):
        raise ConfigError(
            f"{corpus.folder} has too few segments ({corpus.manifest.sizes['n_segments']:,}) for {n_shards} shards "
            f"of {n_chunks} chunks each. Take fewer processes or shards, or larger chunk_tokens."
        )
    return Division(tuple(tuple(parts[shard::n_shards]) for shard in range(n_shards)))


def _blocks(corpus: Corpus, n_blocks: int) -> list[Span]:
    """Nearly equal spans; each border is moved back to where its segment begins."""
    token_segment = corpus.token_segment
    evenly = np.linspace(0, token_segment.size, n_blocks + 1).astype(np.int64)
    borders = [0]
    borders += [int(np.searchsorted(token_segment, token_segment[place])) for place in evenly[1:-1]]
    borders.append(int(token_segment.size))
    return list(pairwise(borders))
