"""Statistics of the tokens: occurrences of words, counts by metadata, and subsampling of frequent words."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from lmcells.corpus import corpus as files
from lmcells.corpus.corpus import Corpus
from lmcells.errors import ConfigError

Item = TypeVar("Item")
Result = TypeVar("Result")
Probabilities = npt.NDArray[np.float64]
MAX_PER_WORD = 1 << 16  # occurrences of a word whose metadata are kept
_ENTRIES = 1 << 22  # per random generator
_THREADS = min(8, os.cpu_count() or 1)
_MAX_OCCURRENCES = 1 << 18  # counted at a time: they fit the processor's cache
_SORTED = 1 << 18  # tokens sorted at a time
_BLOCK = 1 << 20  # tokens per random generator


@dataclass(frozen=True, slots=True)
class WordMetadataCounts:
    """Counts of each word by metadata value: a sparse matrix, one row per word."""

    offsets: npt.NDArray[np.int64]  # (words + 1,) of each word's row
    metadata: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    n_metadata: int

    def at_least(self, least: int) -> Self:
        kept = self.counts >= least
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return replace(self, offsets=offsets, metadata=self.metadata[kept], counts=self.counts[kept])

    def metadata_given_word(self, word: int, *, add: float = 1.0) -> Probabilities:
        """Return p(metadata | word) with add-k smoothing: (metadata,)."""
        row = slice(self.offsets[word], self.offsets[word + 1])
        return _smoothed(self.metadata[row], self.counts[row], self.n_metadata, add)

    def word_given_metadata(self, metadata: int, *, add: float = 1.0) -> Probabilities:
        """Return p(word | metadata) with add-k smoothing: (words,)."""
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


class WordArrays(NamedTuple):
    """Access to the metadata of the occurrences of words."""

    offsets: npt.NDArray[np.integer]  # of each word's occurrences
    metadata_at: Callable[[Any], npt.NDArray[np.integer]]  # of a slice or an array of occurrences
    n_metadata: int

    @classmethod
    def of_corpus(cls, corpus: Corpus, kind: str) -> Self:
        of_segment, occurrences = np.asarray(corpus.segment_metadata(kind)), np.asarray(corpus.occurrences)
        token_segment = np.asarray(corpus.token_segment)

        def metadata_at(chosen: Any) -> npt.NDArray[np.integer]:
            positions = occurrences[chosen]
            files.require_ids(positions, token_segment.size, source=corpus.folder / files.OCCURRENCES)
            segments = token_segment.take(positions)
            files.require_ids(segments, of_segment.size, source=corpus.folder / files.TOKEN_SEGMENT)
            metadata: npt.NDArray[np.integer] = of_segment.take(segments)
            return metadata

        return cls(np.asarray(corpus.word_offsets), metadata_at, corpus.n_metadata(kind))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of words whose occurrences are counted together: one word, or few occurrences."""
        first, n_words = 0, self.offsets.size - 1
        while first < n_words:
            furthest = int(np.searchsorted(self.offsets, self.offsets[first] + _MAX_OCCURRENCES, "right")) - 1
            yield first, (last := max(first + 1, furthest))
            first = last

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of occurrences of each word that are kept."""
        return np.minimum(np.diff(self.offsets), MAX_PER_WORD)

    def gather_all(self) -> Iterator["WordBlock"]:
        return _in_threads(self.gather, self.blocks())

    def gather(self, block: tuple[int, int]) -> "WordBlock":
        """Count all occurrences of a block's words."""
        (first, last), kept = block, self._kept(block)
        chosen = slice(self.offsets[first], self.offsets[last]) if kept is None else kept
        if last - first == 1:
            used, counts = self._count_word(first)
            return WordBlock(np.array([used.size]), used.astype(np.int32), counts, self.metadata_at(chosen))
        n_occurrences = np.diff(self.offsets[first : last + 1])
        under = self.metadata_at(slice(self.offsets[first], self.offsets[last]))
        cells, counts = _count_cells(n_occurrences, under, self.n_metadata)
        rows = cells // self.n_metadata
        return WordBlock(
            np.bincount(rows, minlength=last - first),
            (cells - rows * self.n_metadata).astype(np.int32),
            counts,
            under if kept is None else self.metadata_at(kept),
        )

    def _count_word(self, word: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the metadata of a word's occurrences and the count of each, some occurrences at a time."""
        table = np.zeros(self.n_metadata, np.int64)
        for start in range(self.offsets[word], self.offsets[word + 1], _MAX_OCCURRENCES):
            under = self.metadata_at(slice(start, min(start + _MAX_OCCURRENCES, self.offsets[word + 1])))
            table += np.bincount(under, minlength=self.n_metadata)
        used = np.flatnonzero(table)
        return used, table[used]

    def _kept(self, block: tuple[int, int]) -> npt.NDArray[np.int64] | None:
        """Choose the occurrences of a block's words to keep; None is all.

        A frequent word's occurrences are split into equal ranges, and one is drawn from each: fixed steps could follow
        the structure of notes from one template. The choice does not depend on the random seed.
        """
        first, last = block
        starts, counts = self.offsets[first:last], np.diff(self.offsets[first : last + 1])
        if not (counts > MAX_PER_WORD).any():
            return None
        entry = int(self.sizes()[:first].sum())
        parts = []
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            kept = np.arange(min(count, MAX_PER_WORD))
            if count > MAX_PER_WORD:
                spaced = (kept + _chances(entry, entry + MAX_PER_WORD)) * count / MAX_PER_WORD
                kept = np.minimum(spaced, count - 1).astype(np.int64)
            parts.append(start + kept)
            entry += kept.size
        return np.concatenate(parts)


class WordBlock(NamedTuple):
    """The counts of a range of words by metadata value."""

    n_metadata: npt.NDArray[np.int64]  # number of values that each word occurs with
    metadata: npt.NDArray[np.integer]  # these values, word after word
    counts: npt.NDArray[np.integer]
    occurrences: npt.NDArray[np.integer]  # metadata of the kept occurrences of each word


def _count_cells(
    n_occurrences: npt.NDArray[np.integer], under: npt.NDArray[np.integer], n_metadata: int
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """Count pairs of word and metadata, as cells of a table with a row per word; return the cells and their counts."""
    n_cells = n_occurrences.size * n_metadata
    rows = np.arange(0, n_cells, n_metadata).astype(np.int32 if n_cells < 2**31 else np.int64)
    occupied: npt.NDArray[np.integer] = np.repeat(rows, n_occurrences) + under
    if n_cells <= 2 * occupied.size:
        table = np.bincount(occupied, minlength=n_cells)
        cells = np.flatnonzero(table)
        return cells, table[cells]
    occupied.sort()  # most cells are empty
    first = np.flatnonzero(np.diff(occupied, prepend=-1))
    return occupied[first], np.diff(first, append=occupied.size)


def _chances(first: int, last: int) -> Probabilities:
    """Return the random numbers of the entries from `first` to `last`."""
    parts = []
    for block in range(first // _ENTRIES * _ENTRIES, last, _ENTRIES):
        start, end = max(first, block) - block, min(last - block, _ENTRIES)
        philox = np.random.Philox(key=[0, block])
        philox.advance(start // 4)  # it generates four numbers at a time
        parts.append(np.random.Generator(philox).random(end - start // 4 * 4)[start % 4 :])
    return np.concatenate(parts)


def count_words_by_metadata(corpus: Corpus, kind: str = "section") -> WordMetadataCounts:
    """Count each word by metadata value; counts by section are stored when a corpus is built."""
    if kind == "section":
        paths = [corpus.folder / name for name in files.SECTION_COUNTS]
        offsets = files.map_array(paths[0], size=corpus.word_counts.size + 1)
        metadata, counts = (files.map_array(path, size=int(offsets[-1])) for path in paths[1:])
        files.require_ids(metadata, corpus.n_metadata(kind), source=paths[1])
    else:
        offsets, metadata, counts = join_counts(list(WordArrays.of_corpus(corpus, kind).gather_all()))
    return WordMetadataCounts(
        offsets.astype(np.int64), metadata.astype(np.int32), counts.astype(np.int64), corpus.n_metadata(kind)
    )


def join_counts(blocks: Sequence[WordBlock]) -> tuple[npt.NDArray[np.integer], ...]:
    offsets = np.cumsum(np.concatenate([[0], *(block.n_metadata for block in blocks)]))
    metadata = np.concatenate([block.metadata for block in blocks])
    return offsets, metadata, np.concatenate([block.counts for block in blocks])


def occurrence_metadata(corpus: Corpus, kind: str = "section") -> npt.NDArray[np.int32]:
    """Return the metadata of the occurrences, word after word, at most `MAX_PER_WORD` each."""
    if kind == "section":
        path = corpus.folder / files.OCCURRENCE_SECTIONS
        n_kept = int(np.minimum(corpus.word_counts, MAX_PER_WORD).sum())
        sections = files.map_array(path, size=n_kept)
        files.require_ids(sections, corpus.n_metadata(kind), source=path)
        return sections.astype(np.int32)
    blocks = WordArrays.of_corpus(corpus, kind).gather_all()
    return np.concatenate([block.occurrences for block in blocks]).astype(np.int32)


def _in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield the results in order; numpy releases the GIL."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(work, items)


def create_occurrences(folder: Path, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Create the positions grouped by word, to be filled; write and return each word's offset."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    np.save(folder / files.WORD_OFFSETS, offsets)
    n_tokens = int(offsets[-1])
    # torch indexes with signed types only
    files.create_array(folder / files.OCCURRENCES, n_tokens, np.int32 if n_tokens < 2**31 else np.int64)
    return offsets


def place_occurrences(
    folder: Path,
    stretches: Iterable[tuple[int, npt.NDArray[np.integer]]],
    *,
    cursor: npt.NDArray[np.int64],
) -> None:
    """Write the positions of consecutive tokens, given with the first one's, from each word's cursor on."""
    positions = np.load(folder / files.OCCURRENCES, mmap_mode="r+", allow_pickle=False)
    for first, tokens in stretches:
        for start in range(0, tokens.size, _SORTED):
            block = np.asarray(tokens[start : start + _SORTED])
            n_here = np.bincount(block, minlength=cursor.size)
            first_here = np.cumsum(n_here) - n_here
            places = np.repeat(cursor - first_here, n_here)  # from the sorted block to the file
            places += np.arange(block.size)
            # Casting here is faster than in the assignment.
            positions[places] = (first + start + stable_order(block)).astype(positions.dtype)
            cursor += n_here


def write_section_statistics(corpus: Corpus) -> None:
    """Store the counts of words by section and the sections of occurrences, in the narrowest types."""
    arrays = WordArrays.of_corpus(corpus, "section")
    size, dtype = int(arrays.sizes().sum()), np.min_scalar_type(arrays.n_metadata - 1)
    sections = files.create_array(corpus.folder / files.OCCURRENCE_SECTIONS, size, dtype)
    n_written, counted = 0, []

    def gather(words: tuple[int, int]) -> WordBlock:
        block = arrays.gather(words)
        return block._replace(metadata=narrowest(block.metadata), counts=narrowest(block.counts))

    for block in _in_threads(gather, arrays.blocks()):
        sections[n_written : n_written + block.occurrences.size] = block.occurrences
        n_written += block.occurrences.size
        counted.append(block._replace(occurrences=block.occurrences[:0]))
    section_offsets, metadata, counts = join_counts(counted)
    for name, array in zip(files.SECTION_COUNTS, (narrowest(section_offsets), metadata, counts), strict=True):
        np.save(corpus.folder / name, array)


def narrowest(array: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return an array in the narrowest unsigned type that holds its values."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the stable order of ids, of which few are above 16 bits.

    numpy uses radix sort for 16-bit numbers, which is several times faster.
    """
    low = np.minimum(ids, 0xFFFF).astype(np.uint16)
    order = np.argsort(low, kind="stable")
    rest = order[ids.size - np.count_nonzero(low == 0xFFFF) :]
    rest[:] = rest[np.argsort(ids[rest], kind="stable")]
    return order


Stream = tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]
"""Tokens and their segments, in order."""


def subsample(
    corpus: Corpus, *, threshold: float, seed: int, ranges: Iterable[tuple[int, int]]
) -> Iterator[Stream]:
    """Yield the kept tokens of some ranges, in pieces; the choice depends only on the random seed and the positions."""
    probability = keep_probability(np.asarray(corpus.word_counts), threshold=threshold).astype(np.float32)

    def pieces() -> Iterator[tuple[int, int]]:
        """Split the ranges where the random generator changes."""
        for first, last in ranges:
            for start in range(first // _BLOCK * _BLOCK, last, _BLOCK):
                yield max(first, start), min(last, start + _BLOCK)

    def keep(piece: tuple[int, int]) -> Stream:
        start, end = piece
        block = start // _BLOCK
        chances = np.random.Generator(np.random.Philox(key=[seed, block])).random(
            end - block * _BLOCK, np.float32
        )
        tokens, segments = (np.asarray(each[start:end]) for each in (corpus.tokens, corpus.token_segment))
        files.require_ids(tokens, probability.size, source=corpus.folder / files.TOKENS)
        n_segments = corpus.manifest.sizes["n_segments"]
        files.require_ids(segments, n_segments, source=corpus.folder / files.TOKEN_SEGMENT)
        stays = np.flatnonzero(chances[start - block * _BLOCK :] < probability.take(tokens))
        return tokens.take(stays), segments.take(stays)  # several times faster than by a mask

    return _in_threads(keep, pieces())


def keep_probability(counts: npt.NDArray[np.integer], *, threshold: float) -> Probabilities:
    """Return the probability of keeping a token, by word: min(1, sqrt(t/f) + t/f) with f its share of all tokens.

    Mikolov et al. 2013, as in the word2vec program. A threshold of 0 keeps everything.
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
