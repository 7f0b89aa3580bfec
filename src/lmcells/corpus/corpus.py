"""A corpus on disk, opened through memory maps."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import layout
from lmcells.corpus.layout import map_array
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import ConfigError, CorpusError, nearest
from lmcells.files import read_json

# The words around a center, never across a section or document boundary.


RADIUS = 10


@dataclass(frozen=True, slots=True)
class Windows:
    """Context words of a batch of centers, left to right; `mask` tells which are there, the others are 0."""

    context: npt.NDArray[np.integer]  # (batch, 2 * radius)
    mask: npt.NDArray[np.bool_]  # (batch, 2 * radius)


def windows_around(
    centers: npt.NDArray[np.integer],
    *,
    tokens: npt.NDArray[np.integer],
    token_segment: npt.NDArray[np.integer],
    radius: int = RADIUS,
) -> Windows:
    """Gather up to `radius` words on each side of the tokens at `centers`."""
    offsets = np.concatenate([np.arange(-radius, 0), np.arange(1, radius + 1)])
    places = np.asarray(centers, np.int64)[:, None] + offsets  # (batch, 2 * radius)
    inside = (places >= 0) & (places < tokens.size)
    places = np.where(inside, places, 0)
    mask = inside & (token_segment[places] == token_segment[centers][:, None])
    return Windows(np.where(mask, tokens[places], 0), mask)


# A corpus on disk, opened through memory maps.


@dataclass(frozen=True)
class Corpus:
    """Words and metadata of all notes, as flat arrays.

    corpus = Corpus.open("corpus")
    corpus.tokens                       # word id of each token, note after note
    corpus.token_segment                # its segment: a section of a note
    corpus.segment_metadata("section")  # the section id of each segment
    corpus.occurrences_of(word_id)      # where a word stands
    """

    folder: Path
    manifest: layout.Manifest = field(repr=False)

    @classmethod
    def open(cls, folder: Path | str, *, verify: bool = False) -> Self:
        """Open a corpus folder; `verify` also compares every checksum."""
        folder = Path(folder)
        return cls(folder, layout.Manifest.from_dict(layout.FORMAT.read_index(folder, verify=verify)))

    def _map(self, name: str) -> npt.NDArray[np.integer]:
        return map_array(self.folder / name)

    @cached_property
    def tokens(self) -> npt.NDArray[np.integer]:
        """The word id of each token."""
        return self._map(layout.TOKENS)

    @cached_property
    def token_segment(self) -> npt.NDArray[np.integer]:
        """The segment of each token: a section of a note."""
        return self._map(layout.TOKEN_SEGMENT)

    @cached_property
    def words(self) -> list[str]:
        """The vocabulary, the most frequent word first."""
        words: list[str] = read_json(self.folder / layout.VOCABULARY)
        return words

    @cached_property
    def word_counts(self) -> npt.NDArray[np.integer]:
        """How often each word stands in the corpus."""
        return self._map(layout.WORD_COUNTS)

    @cached_property
    def word_offsets(self) -> npt.NDArray[np.integer]:
        """Where each word's places begin in `occurrences`; one more than there are words."""
        return self._map(layout.WORD_OFFSETS)

    @cached_property
    def occurrences(self) -> npt.NDArray[np.integer]:
        """The places of all tokens, grouped by word."""
        return self._map(layout.OCCURRENCES)

    def occurrences_of(self, word: int) -> npt.NDArray[np.integer]:
        """Return the places of one word."""
        return self.occurrences[self.word_offsets[word] : self.word_offsets[word + 1]]

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are among the tokens."""
        return has_stop_words(self.manifest.settings)

    @property
    def metadata_kinds(self) -> tuple[str, ...]:
        """The kinds of metadata: section, category, document, and the columns asked for."""
        return tuple(self.manifest.metadata)

    def n_metadata(self, kind: str) -> int:
        """How many values a kind of metadata has."""
        self._check_kind(kind)
        return self.manifest.metadata[kind]

    def segment_metadata(self, kind: str) -> npt.NDArray[np.integer]:
        """Return the metadata id of each segment."""
        self._check_kind(kind)
        return self._map(layout.metadata_ids(kind))

    def metadata_names(self, kind: str) -> list[str]:
        """Return the metadata's names, by id."""
        self._check_kind(kind)
        names: list[str] = read_json(self.folder / layout.metadata_names(kind))
        return names

    def _check_kind(self, kind: str) -> None:
        if kind not in self.manifest.metadata:
            raise CorpusError(
                f"{self.folder} has no metadata {kind!r}. It has: {', '.join(self.metadata_kinds)}."
                f"{nearest(kind, self.metadata_kinds)}"
            )


# p(metadata | word) and p(word | metadata), from counts, with add-k smoothing.


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


# Dropping most places of the most frequent words, as word2vec does, when training reads the corpus.


_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stream:
    """Tokens and their segments, in order."""

    tokens: npt.NDArray[np.integer]
    token_segment: npt.NDArray[np.integer]


def keep_probability(counts: npt.NDArray[np.integer], *, threshold: float) -> npt.NDArray[np.float64]:
    """Return the chance of each word's places to stay: sqrt(t/f) + t/f, at most 1, f its share of all tokens.

    Mikolov et al. 2013, in the form of the word2vec program. A threshold of 0 keeps everything.
    """
    if threshold < 0:
        raise ConfigError(
            f"subsampling threshold: found {threshold}, allowed: 0 (keep all) or more, usually 0.001."
        )
    if threshold == 0:
        return np.ones(counts.size)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    probability: npt.NDArray[np.float64] = np.minimum(np.sqrt(ratio) + ratio, 1.0)
    return probability


def subsample(
    corpus: Corpus, *, threshold: float = 1e-3, seed: int, first: int = 0, last: int | None = None
) -> Stream:
    """Return the tokens from `first` to `last` that stay: a matter of the seed and their place alone."""
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
