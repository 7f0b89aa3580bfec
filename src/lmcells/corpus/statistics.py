"""p(metadata | word) and p(word | metadata), from counts, with add-k smoothing."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import Corpus

Probabilities = npt.NDArray[np.float64]
_MAX_TABLE = 1 << 22  # cells of a dense block of words x metadata
_MAX_PLACES = 1 << 22  # places of words looked at in one go


@dataclass(frozen=True, slots=True)
class WordMetadataCounts:
    """How often each word stands under each metadata: the rows of a sparse matrix, word after word."""

    offsets: npt.NDArray[np.int64]  # of each word's row; one more than there are words
    metadata: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    n_metadata: int

    def at_least(self, least: int) -> Self:
        """Return the counts that are not below `least`."""
        kept = self.counts >= least
        before = np.concatenate([[0], np.cumsum(kept)])
        return replace(
            self, offsets=before[self.offsets], metadata=self.metadata[kept], counts=self.counts[kept]
        )

    def metadata_given_word(self, word: int, *, add: float = 1.0) -> Probabilities:
        """Return p(metadata | word), one value a metadata."""
        row = slice(self.offsets[word], self.offsets[word + 1])
        return _smoothed(self.metadata[row], self.counts[row], self.n_metadata, add)

    def word_given_metadata(self, metadata: int, *, add: float = 1.0) -> Probabilities:
        """Return p(word | metadata), one value a word."""
        here = self.metadata == metadata
        words = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        return _smoothed(words[here], self.counts[here], self.offsets.size - 1, add)


def _smoothed(
    ids: npt.NDArray[np.integer], counts: npt.NDArray[np.int64], size: int, add: float
) -> Probabilities:
    probabilities = np.full(size, add, np.float64)
    probabilities[ids] += counts
    total = probabilities.sum()
    return probabilities / total if total > 0 else np.full(size, 1 / size)


def count_words_by_metadata(corpus: Corpus, kind: str = "section") -> WordMetadataCounts:
    """Count each word under each metadata of a kind, a block of words at a time."""
    n_metadata = corpus.n_metadata(kind)
    segment_metadata = np.asarray(corpus.segment_metadata(kind))
    offsets = np.asarray(corpus.word_offsets)
    n_words = offsets.size - 1
    rows, metadata, counts = [np.zeros(1, np.int64)], [], []
    word = 0
    while word < n_words:
        furthest = np.searchsorted(offsets, offsets[word] + _MAX_PLACES, "right") - 1
        last = int(min(max(word + 1, min(furthest, word + _MAX_TABLE // n_metadata)), n_words))
        table = np.zeros((last - word) * n_metadata, np.int64)
        for start in range(
            offsets[word], offsets[last], _MAX_PLACES
        ):  # a very frequent word takes several turns
            places = np.arange(start, min(start + _MAX_PLACES, offsets[last]))
            words = np.searchsorted(offsets[word : last + 1], places, "right") - 1
            under = segment_metadata[corpus.token_segment[corpus.occurrences[start : start + places.size]]]
            table += np.bincount(words * n_metadata + under, minlength=table.size)
        cells = np.flatnonzero(table)
        rows.append(np.bincount(cells // n_metadata, minlength=last - word))
        metadata.append((cells % n_metadata).astype(np.int32))
        counts.append(table[cells])
        word = last
    return WordMetadataCounts(
        offsets=np.cumsum(np.concatenate(rows)),
        metadata=np.concatenate([np.zeros(0, np.int32), *metadata]),
        counts=np.concatenate([np.zeros(0, np.int64), *counts]),
        n_metadata=n_metadata,
    )
