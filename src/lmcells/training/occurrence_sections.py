"""beta(m | w): the sections of each word's occurrences, grouped by word, on a device."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.training.draws import take, uniform_below

MAX_PER_WORD = 1 << 16
_BLOCK = 1 << 22
_SEED = 0  # which occurrences stand for a frequent word is no setting of a run


@dataclass(frozen=True, slots=True)
class OccurrenceSections:
    """A draw from beta(m | w) is the section of a uniformly drawn occurrence of w.

    Of a word with more than 65,536 occurrences as many are kept, spread evenly through the corpus: the array is
    bounded by the vocabulary, and an index is drawn evenly in float32. Add-k smoothing is a uniform section with
    probability k M / (count + k M), the count being the true one.
    """

    sections: Tensor  # (N,) int32, word after word
    offsets: Tensor  # (V,) int32 or int64, where each word's begin
    sizes: Tensor  # (V,) int32, how many it has
    uniform_rate: Tensor | None  # (V,) float32, chance of a uniform section; None without smoothing
    n_metadata: int

    @classmethod
    def of_corpus(
        cls,
        corpus: Corpus,
        *,
        kind: str,
        smoothing: float,
        device: torch.device,
        max_per_word: int = MAX_PER_WORD,
    ) -> Self:
        """Gather the sections of all occurrences, at most `max_per_word` a word."""
        counts = np.asarray(corpus.word_counts, np.int64)
        sizes = np.minimum(counts, max_per_word)
        offsets = np.cumsum(sizes) - sizes
        n_metadata = corpus.n_metadata(kind)
        uniform_rate = None
        if smoothing > 0:
            added = smoothing * n_metadata
            uniform_rate = torch.from_numpy((added / (counts + added)).astype(np.float32)).to(device)
        return cls(
            sections=torch.from_numpy(_gather(corpus, kind, counts, sizes)).to(device),
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


def _gather(
    corpus: Corpus, kind: str, counts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    segment_metadata = np.asarray(corpus.segment_metadata(kind))
    word_offsets = np.asarray(corpus.word_offsets)
    ends = np.cumsum(sizes)
    sections = np.empty(int(ends[-1]) if ends.size else 0, np.int32)
    for start in range(0, sections.size, _BLOCK):
        entries = np.arange(start, min(start + _BLOCK, sections.size))
        words = np.searchsorted(ends, entries, "right")
        rank = entries - (ends[words] - sizes[words])
        # Every occurrence, or one at random from each of as many equal stretches: at fixed steps they could fall
        # in with the rhythm of notes that are all built alike.
        chances = np.random.Generator(np.random.Philox(key=[_SEED, start])).random(entries.size)
        spaced = np.minimum((rank + chances) * counts[words] / sizes[words], counts[words] - 1).astype(
            np.int64
        )
        places = corpus.occurrences[word_offsets[words] + spaced]
        sections[entries] = segment_metadata[corpus.token_segment[places]]
    return sections
