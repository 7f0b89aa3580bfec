"""How often words occur under each metadata, and subsampling of the most frequent words."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import Corpus
from lmcells.errors import ConfigError

Probabilities = npt.NDArray[np.float64]
_MAX_CELLS = 1 << 22  # of a dense block of words x metadata
_MAX_OCCURRENCES = 1 << 22  # looked at in one go
_BLOCK = 1 << 20  # tokens whose fate is drawn from one random generator


@dataclass(frozen=True, slots=True)
class WordMetadataCounts:
    """How often each word occurs under each metadata: the rows of a sparse matrix, word after word."""

    offsets: npt.NDArray[np.int64]  # of each word's row; one more than there are words
    metadata: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    n_metadata: int

    def at_least(self, least: int) -> Self:
        """Return the counts that are not below `least`."""
        kept = self.counts >= least
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return replace(self, offsets=offsets, metadata=self.metadata[kept], counts=self.counts[kept])

    def metadata_given_word(self, word: int, *, add: float = 1.0) -> Probabilities:
        """Return p(metadata | word) with add-k smoothing, one value a metadata."""
        row = slice(self.offsets[word], self.offsets[word + 1])
        return _smoothed(self.metadata[row], self.counts[row], self.n_metadata, add)

    def word_given_metadata(self, metadata: int, *, add: float = 1.0) -> Probabilities:
        """Return p(word | metadata) with add-k smoothing, one value a word."""
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
    rows, metadata, counts = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    word = 0
    while word < n_words:
        furthest = np.searchsorted(offsets, offsets[word] + _MAX_OCCURRENCES, "right") - 1
        last = int(min(max(word + 1, min(furthest, word + _MAX_CELLS // n_metadata)), n_words))
        table = np.zeros((last - word) * n_metadata, np.int64)
        for start in range(offsets[word], offsets[last], _MAX_OCCURRENCES):  # very frequent: several turns
            places = np.arange(start, min(start + _MAX_OCCURRENCES, offsets[last]))
            words = np.searchsorted(offsets[word : last + 1], places, "right") - 1
            under = segment_metadata[corpus.token_segment[corpus.occurrences[start : start + places.size]]]
            table += np.bincount(words * n_metadata + under, minlength=table.size)
        cells = np.flatnonzero(table)
        rows.append(np.bincount(cells // n_metadata, minlength=last - word))
        metadata.append((cells % n_metadata).astype(np.int32))
        counts.append(table[cells])
        word = last
    row_offsets = np.cumsum(np.concatenate(rows))
    return WordMetadataCounts(row_offsets, np.concatenate(metadata), np.concatenate(counts), n_metadata)


class Stream(NamedTuple):
    """Tokens and their segments, in order."""

    tokens: npt.NDArray[np.integer]
    token_segment: npt.NDArray[np.integer]


def subsample(
    corpus: Corpus, *, threshold: float = 1e-3, seed: int, first: int = 0, last: int | None = None
) -> Stream:
    """Return the tokens from `first` to `last` that stay; which ones depends on the seed and their position alone."""
    last = corpus.tokens.size if last is None else min(last, corpus.tokens.size)
    probability = keep_probability(np.asarray(corpus.word_counts), threshold=threshold).astype(np.float32)
    tokens, segments = [corpus.tokens[:0]], [corpus.token_segment[:0]]
    for block in range(first // _BLOCK, -(-last // _BLOCK)):
        chances = np.random.Generator(np.random.Philox(key=[seed, block])).random(_BLOCK, np.float32)
        start, end = max(first, block * _BLOCK), min(last, (block + 1) * _BLOCK)
        here = np.asarray(corpus.tokens[start:end])
        stays = chances[start - block * _BLOCK : end - block * _BLOCK] < probability[here]
        tokens.append(here[stays])
        segments.append(np.asarray(corpus.token_segment[start:end])[stays])
    return Stream(np.concatenate(tokens), np.concatenate(segments))


def keep_probability(counts: npt.NDArray[np.integer], *, threshold: float) -> Probabilities:
    """Return the probability that a token stays, by word: sqrt(t/f) + t/f, at most 1, f its share of all tokens.

    Mikolov et al. 2013, in the form of the word2vec program. A threshold of 0 keeps everything.
    """
    if threshold < 0:
        raise ConfigError(
            f"subsampling threshold: found {threshold}, allowed: 0 (keep all) or more, usually 0.001."
        )
    if threshold == 0:
        return np.ones(counts.size)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    probability: Probabilities = np.minimum(np.sqrt(ratio) + ratio, 1.0)
    return probability
