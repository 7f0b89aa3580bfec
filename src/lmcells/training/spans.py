"""What can be taken out of a text and leave a gap with a meaning: words, and phrases that come up again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.notes.tokens import STOP_WORDS
from lmcells.training.device_corpus import Chunk, take, uniform_below
from lmcells.training.settings import TrainingSettings

_MIX = 0x9E3779B97F4A7C1  # odd, so that multiplying by it modulo 2^64 loses nothing


@dataclass(frozen=True, slots=True)
class DrawnSpans:
    """Different spans, and some places of each."""

    places: Tensor  # (k, n) int32, of the first word
    lengths: Tensor  # (n,) int32, in words


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the words and phrases of a chunk stand that occur often enough, and how likely each is to be drawn."""

    places: Tensor  # (p,) int32, all places grouped by span
    offsets: Tensor  # (U,) int32, where each span's places begin
    counts: Tensor  # (U,) int32
    lengths: Tensor  # (U,) int32, words of each
    keys: Tensor  # (U,) int64, a hash of its words
    weights: Tensor  # (U,) float32; 0 for what begins or ends with a stop word
    n_drawn: int  # how many can be drawn

    def __len__(self) -> int:
        return self.counts.shape[0]

    @classmethod
    def of_chunk(
        cls,
        chunk: Chunk,
        *,
        min_count: int,
        exponent: float,
        max_words: int = 1,
        stop_words: Tensor | None = None,
    ) -> Self:
        """Group a chunk by words and by phrases of up to `max_words`. It waits for the device, once a chunk.

        `stop_words` are the ids of words that say nothing alone: what begins or ends with one is never drawn.
        """
        groups = [_group(chunk, n_words, min_count=min_count) for n_words in range(1, max_words + 1)]
        places, counts, lengths, keys = (torch.cat(parts) for parts in zip(*groups, strict=True))
        offsets = (counts.cumsum(0) - counts).to(torch.int32)
        weights = counts.float() ** exponent
        if stop_words is not None:
            first = places[offsets]
            ends = torch.isin(chunk.tokens[torch.stack([first, first + lengths - 1])], stop_words)  # (2, U)
            weights = weights.masked_fill(ends.any(dim=0), 0.0)
        return cls(
            places=places,
            offsets=offsets,
            counts=counts,
            lengths=lengths,
            keys=keys,
            weights=weights,
            n_drawn=int(weights.count_nonzero()),
        )

    @classmethod
    def of_training(cls, chunk: Chunk, *, settings: TrainingSettings, stop_words: Tensor | None) -> Self:
        """The spans of a chunk that a training with these settings draws from."""
        return cls.of_chunk(
            chunk,
            min_count=settings.contrastive_min_count,
            exponent=settings.contrastive_exponent,
            max_words=settings.contrastive_max_words,
            stop_words=stop_words,
        )

    def draw(self, n_spans: int, generator: torch.Generator) -> DrawnSpans:
        """Draw up to `n_spans` by weight without replacement, and two places of each.

        Those with the least of exponential times / weight (Efraimidis and Spirakis 2006).
        """
        times = torch.empty_like(self.weights).exponential_(generator=generator) / self.weights
        rows = times.topk(min(n_spans, self.n_drawn), largest=False, sorted=False).indices
        counts, offsets = take(self.counts, rows), take(self.offsets, rows)  # (n,) each
        first = uniform_below(counts, generator)
        second = (first + 1 + uniform_below(counts - 1, generator)) % counts
        return DrawnSpans(take(self.places, offsets + torch.stack([first, second])), take(self.lengths, rows))


def stop_word_ids(corpus: Corpus, *, device: torch.device) -> Tensor | None:
    """The ids of the stop words of a corpus that has them; in any other, "or" and "no" were written in capitals."""
    if not corpus.reads_stop_words:
        return None
    return torch.tensor([id_ for id_, word in enumerate(corpus.words) if word in STOP_WORDS], device=device)


def span_key(words: Sequence[int]) -> int:
    """The hash of a span with these words."""
    key = torch.zeros((), dtype=torch.int64)
    for word in words:
        key = _extend(key, torch.tensor(word))
    return int(key)


def _extend(key: Tensor, word: Tensor) -> Tensor:
    return (key + 1 + word) * _MIX  # modulo 2^64


def _group(chunk: Chunk, n_words: int, *, min_count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Places, counts, lengths and keys of the frequent phrases of just so many words, none across a boundary."""
    n_places = max(len(chunk) - n_words + 1, 0)
    keys = torch.zeros(n_places, dtype=torch.int64, device=chunk.tokens.device)
    for offset in range(n_words):
        keys = _extend(keys, chunk.tokens[offset : offset + n_places])
    inside = chunk.segments[:n_places] == chunk.segments[n_words - 1 : n_words - 1 + n_places]
    places = inside.nonzero().squeeze(1)
    keys, order = torch.sort(keys[places], stable=True)
    distinct, counts = torch.unique_consecutive(keys, return_counts=True)
    frequent = counts >= min_count
    kept = places[order[frequent.repeat_interleave(counts)]].to(torch.int32)
    counts = counts[frequent].to(torch.int32)
    return kept, counts, torch.full_like(counts, n_words), distinct[frequent]
