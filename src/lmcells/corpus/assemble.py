"""The second half of a build: from shards to the arrays of a corpus, in memory proportional to the distinct words.

Consecutive shards form groups, which are processed in parallel. First headers are resolved and words counted, which
gives the vocabulary; then words become ids, which gives the position of each group in the arrays; then the arrays are
written.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import corpus as files
from lmcells.corpus.sections import STAYS_IN_BODY, SectionTable
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard
from lmcells.corpus.statistics import MAX_PER_WORD, WordArrays, WordBlock, join_counts
from lmcells.errors import InputError
from lmcells.files import read_json, write_json
from lmcells.processes import Run

NO_VALUE = "<none>"
_BUFFER = 1 << 20  # hashes to collect before merging
_BLOCK = 1 << 18  # tokens sorted at a time: they fit the processor's cache
_LOCAL_BITS = 32  # a word's place is its shard's number, then its index there in this many bits
_MAX_SHARDS = 4  # of a group, which a worker holds in memory


class Counted(NamedTuple):
    """All shards, in order, and the counts of their headers and metadata values."""

    shards: list[Path]
    headers: Counter[tuple[str, str]]  # as written, with their canonical names
    values: dict[str, Counter[str]]  # of each kind of metadata except section and document


class _Group(NamedTuple):
    number: int
    first_shard: int
    shards: list[Path]

    def path(self, what: str) -> Path:
        """Return the path of a temporary file of the group."""
        return self.shards[0].with_name(f"group-{self.number:04}.{what}")


def assemble(
    counted: Counted,
    folder: Path,
    *,
    settings: CorpusSettings,
    run: Run,
    workers: int,
    on_step: Callable[[str], None],
) -> tuple[dict[str, int], dict[str, int]]:
    """Write all files of a corpus except the manifest; return its sizes and the number of values of each metadata."""
    on_step("counting words")
    shards, work = counted.shards, folder.parent
    sections = SectionTable.of_counts(
        counted.headers, min_count=settings.min_header_count, merge_rare=settings.sections == "paper"
    )
    n_groups = max(-(-len(shards) // _MAX_SHARDS), min(len(shards), workers))
    borders = np.linspace(0, len(shards), n_groups + 1).astype(int).tolist()
    groups = [
        _Group(number, first, shards[first:last]) for number, (first, last) in enumerate(pairwise(borders))
    ]
    counts = HashCounts()
    for of_group in run(partial(_resolve_group, sections=sections), groups):
        counts.add(*of_group)
    vocabulary = Vocabulary.of_frequent_words(counts, min_count=settings.min_count, shards=shards)
    if not vocabulary.words:
        raise InputError(
            f"no word occurs more than {settings.min_count} times. Give more notes, or a lower --min-count."
        )
    names = {"section": list(sections.id_of_name)}
    for kind, values in counted.values.items():
        names[kind] = sorted(values, key=lambda value: (-values[value], value))
    write_json(folder / files.VOCABULARY, vocabulary.words)
    np.save(folder / files.WORD_COUNTS, vocabulary.counts)
    for kind, of_kind in names.items():
        write_json(folder / files.metadata_names(kind), [name or NO_VALUE for name in of_kind])
    vocabulary.save(work)
    ids_of_values = {kind: {name: id_ for id_, name in enumerate(names[kind])} for kind in counted.values}
    write_json(work / _VALUES, ids_of_values)

    on_step("numbering words")
    sizes = np.zeros((3, len(groups) + 1), np.int64)  # tokens, segments and documents before each group
    for number, *of_group in run(partial(_number_group, work=work), groups):
        sizes[:, number + 1] = of_group
    before = np.cumsum(sizes, axis=1)
    n_tokens, n_segments, n_documents = before[:, -1].tolist()
    with (folder / files.metadata_names("document")).open("w", encoding="utf-8") as document_names:
        fragments = (group.path("documents.json").read_text(encoding="utf-8") for group in groups)
        document_names.write("[")
        for number, fragment in enumerate(fragments):
            document_names.write((", " if number else "") + fragment)
        document_names.write("]\n")

    on_step("writing tokens")
    kinds = (*names, "document")
    for name, size in (
        *((name, n_tokens) for name in (files.TOKENS, files.TOKEN_SEGMENT)),
        *((files.metadata_ids(kind), n_segments) for kind in kinds),
    ):
        create_array(folder / name, size)
    create_array(work / _SECTIONS, n_tokens, np.min_scalar_type(len(names["section"]) - 1))
    cursor = create_occurrences(folder, vocabulary.counts)[:-1].copy()
    for group in groups:
        np.save(group.path("cursor.npy"), cursor)
        cursor += np.load(group.path("counts.npy"), allow_pickle=False)
    placed = [(group, before[:, group.number].tolist()) for group in groups]
    for _ in run(partial(_place_group, folder=folder), placed):
        pass
    on_step("counting words by section")
    n_sections = len(names["section"])
    tasks = create_section_statistics(folder, _placed_sections(folder, n_sections))
    write_section_counts(folder, run(partial(_gather_placed, folder=folder, n_sections=n_sections), tasks))
    return (
        {
            "n_tokens": n_tokens,
            "n_words": len(vocabulary.words),
            "n_segments": n_segments,
            "n_documents": n_documents,
        },
        {kind: len(of_kind) for kind, of_kind in names.items()} | {"document": n_documents},
    )


class ResolvedShard(NamedTuple):
    """A shard with its headers resolved: the tokens of all segments, in order."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    segment_tokens: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]


def resolve(shard: Shard, sections: SectionTable) -> ResolvedShard:
    """Drop repeated words and the tokens of section headers; keep those of headers that stay in the body."""
    document, _, n_header_tokens, n_tokens = shard.segments
    section = sections.ids_of(shard)
    in_body = section == STAYS_IN_BODY
    first_of_document = np.append(True, document[1:] != document[:-1])
    begins = np.flatnonzero(~in_body | first_of_document)  # text never joins that of the previous note
    section = np.where(in_body, 0, section)  # a note may begin with a header that stays in the body

    lengths = np.stack([n_header_tokens, n_tokens - n_header_tokens], axis=1)
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    tokens = shard.tokens[np.repeat(kept_parts.ravel(), lengths.ravel())]
    segment_tokens = np.add.reduceat((lengths * kept_parts).sum(axis=1), begins)

    repeats = np.flatnonzero(tokens[1:] == tokens[:-1]) + 1  # a word right after itself in a segment
    segment_ends = np.cumsum(segment_tokens)  # where the next segment starts
    repeats = repeats[segment_ends[np.searchsorted(segment_ends, repeats)] != repeats]
    return ResolvedShard(
        tokens=np.delete(tokens, repeats),
        segment_tokens=segment_tokens - _count_in_segments(repeats, segment_tokens),
        segment_section=section[begins],
        segment_document=document[begins],
    )


def _count_in_segments(
    positions: npt.NDArray[np.int64], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Count the positions in each segment; positions are in order."""
    return np.diff(np.searchsorted(positions, np.cumsum(segment_tokens)), prepend=0)


HashArrays = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Hashes of words, their counts, and the place of each word's first occurrence."""


def _resolve_group(group: _Group, *, sections: SectionTable) -> HashArrays:
    counts = HashCounts()
    for number, path in enumerate(group.shards, start=group.first_shard):
        shard = Shard(path)
        resolved = resolve(shard, sections)
        _save(_resolved(path), resolved._asdict())
        places = (number << _LOCAL_BITS) + np.arange(shard.hashes.size)
        counts.add(shard.hashes, np.bincount(resolved.tokens, minlength=shard.hashes.size), places)
    return counts.merged()


def _resolved(shard: Path) -> Path:
    return shard.with_name(f"resolved-{shard.name}")


def _save(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to a folder; faster than `.npz`, which computes checksums."""
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def _load(folder: Path) -> dict[str, npt.NDArray[Any]]:
    return {path.stem: np.load(path, allow_pickle=False) for path in folder.glob("*.npy")}


class HashCounts:
    """Counts of words by hash: 24 bytes per distinct word, for any number of shards."""

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self._pending: list[HashArrays] = [(np.zeros(0, np.uint64), empty, empty)]
        self._n_pending = 0

    def add(self, *counted: npt.NDArray[Any]) -> None:
        """Add the counts of one shard or several."""
        hashes, counts, places = counted
        self._pending.append((hashes, counts, places))
        self._n_pending += hashes.size
        if self._n_pending > max(_BUFFER, self._pending[0][0].size):
            self.merged()

    def merged(self) -> HashArrays:
        """Return all hashes, sorted, with their counts and first places."""
        hashes, counts, places = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        order = np.argsort(hashes, kind="stable")  # fast if mostly sorted
        hashes, counts, places = hashes[order], counts[order], places[order]
        if hashes.size:
            first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
            hashes, counts = hashes[first], np.add.reduceat(counts, first)
            places = np.minimum.reduceat(places, first)
        self._pending, self._n_pending = [(hashes, counts, places)], 0
        return self._pending[0]


_HASHES, _IDS, _VALUES = "vocabulary.hashes.npy", "vocabulary.ids.npy", "values.json"
_SECTIONS = "sections.npy"  # of all occurrences


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a corpus, most frequent first."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    _sorted_hashes: npt.NDArray[np.uint64]
    _id_of_sorted: npt.NDArray[np.int32]

    @classmethod
    def of_frequent_words(cls, counts: HashCounts, *, min_count: int, shards: Sequence[Path]) -> Self:
        """Look up the spellings of the frequent words, and order them by frequency, then spelling."""
        hashes, frequencies, places = counts.merged()
        frequent = frequencies > min_count
        hashes, frequencies, places = hashes[frequent], frequencies[frequent], places[frequent]
        words = [""] * hashes.size
        order = np.argsort(places)
        shard_of, local = places[order] >> _LOCAL_BITS, places[order] & ((1 << _LOCAL_BITS) - 1)
        for number in np.unique(shard_of).tolist():
            spellings = Shard(shards[number]).spellings
            here = slice(*np.searchsorted(shard_of, [number, number + 1]).tolist())
            for index, of_shard in zip(order[here].tolist(), local[here].tolist(), strict=True):
                words[index] = spellings[of_shard]
        by_spelling = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
        order = by_spelling[np.argsort(-frequencies[by_spelling], kind="stable")]
        id_of_sorted = np.zeros(hashes.size, np.int32)
        id_of_sorted[order] = np.arange(len(order), dtype=np.int32)
        return cls([words[index] for index in order.tolist()], frequencies[order], hashes, id_of_sorted)

    def save(self, work: Path) -> None:
        """Write what workers need to map words to ids."""
        np.save(work / _HASHES, self._sorted_hashes)
        np.save(work / _IDS, self._id_of_sorted)


def _number_group(group: _Group, *, work: Path) -> tuple[int, int, int, int]:
    """Replace words by their ids and drop rare ones; return the group's number and its remaining sizes."""
    hashes, ids, ids_of_values = np.load(work / _HASHES), np.load(work / _IDS), read_json(work / _VALUES)
    parts: dict[str, list[npt.NDArray[np.integer]]] = {}
    document_ids: list[str] = []
    for path in group.shards:
        shard = Shard(path)
        resolved = ResolvedShard(**_load(_resolved(path)))
        at = np.minimum(np.searchsorted(hashes, shard.hashes), hashes.size - 1)
        id_of_word = np.where(hashes[at] == shard.hashes, ids[at], np.int32(-1))
        tokens = np.take(id_of_word, resolved.tokens)
        is_rare = tokens < 0
        # Segments without a word left are dropped.
        rare = np.flatnonzero(is_rare)
        n_words_in = resolved.segment_tokens - _count_in_segments(rare, resolved.segment_tokens)
        used = np.flatnonzero(n_words_in)
        documents = resolved.segment_document[used]
        of_shard = {
            "tokens": tokens[~is_rare] if rare.size else tokens,
            "lengths": n_words_in[used],
            "section": resolved.segment_section[used],
            "document": len(document_ids) + documents,
        }
        for kind, ids_of_kind in ids_of_values.items():
            by_document = np.array([ids_of_kind[value] for value in shard.document_metadata[kind]], np.int32)
            of_shard[kind] = by_document[documents]
        for name, array in of_shard.items():
            parts.setdefault(name, []).append(array)
        document_ids += shard.document_ids
        shutil.rmtree(_resolved(path))
    joined = {name: np.concatenate(of_name) for name, of_name in parts.items()}
    _save(group.path("arrays"), joined)
    np.save(group.path("counts.npy"), np.bincount(joined["tokens"], minlength=hashes.size))
    fragment = json.dumps(document_ids, ensure_ascii=False)[1:-1]
    group.path("documents.json").write_text(fragment, encoding="utf-8")
    return group.number, joined["tokens"].size, joined["lengths"].size, len(document_ids)


def _place_group(placed: tuple[_Group, list[int]], *, folder: Path) -> None:
    """Write a group's tokens, metadata and occurrences to where they belong in a corpus."""
    group, (n_tokens, n_segments, n_documents) = placed
    joined = _load(group.path("arrays"))
    tokens, lengths = joined.pop("tokens"), joined.pop("lengths")
    joined["document"] += n_documents
    segments = np.arange(n_segments, n_segments + lengths.size, dtype=np.int32)
    _write(folder / files.TOKENS, tokens, at=n_tokens)
    _write(folder / files.TOKEN_SEGMENT, np.repeat(segments, lengths), at=n_tokens)
    for kind, ids in joined.items():
        _write(folder / files.metadata_ids(kind), ids, at=n_segments)
    cursor = np.load(group.path("cursor.npy"), allow_pickle=False)
    of_occurrences = np.load(folder.parent / _SECTIONS, mmap_mode="r+", allow_pickle=False)
    of_tokens = np.repeat(joined["section"].astype(of_occurrences.dtype), lengths)
    for at, order in place_occurrences(folder, tokens, first=n_tokens, cursor=cursor):
        of_occurrences[at] = of_tokens[order]


def create_array(path: Path, size: int, dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """Create a memory-mapped `.npy` file, to be written piece by piece."""
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=(size,))
    return array


def _write(path: Path, values: npt.NDArray[Any], *, at: int) -> None:
    np.load(path, mmap_mode="r+", allow_pickle=False)[at : at + values.size] = values


def create_occurrences(folder: Path, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Create the array of positions grouped by word, to be filled; write and return each word's offset in it.

    The section of a random occurrence of a word is a sample from p(section | word).
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    np.save(folder / files.WORD_OFFSETS, offsets)
    n_tokens = int(offsets[-1])
    # torch indexes with signed types only
    create_array(folder / files.OCCURRENCES, n_tokens, np.int32 if n_tokens < 2**31 else np.int64)
    return offsets


def place_occurrences(
    folder: Path, tokens: npt.NDArray[np.integer], *, first: int, cursor: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Write the positions of some tokens, which begin at position `first`, from each word's cursor on.

    Yield where they were written, and the indices of the tokens.
    """
    positions = np.load(folder / files.OCCURRENCES, mmap_mode="r+", allow_pickle=False)
    for start in range(0, tokens.size, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK])
        n_here = np.bincount(block, minlength=cursor.size)
        first_here = np.cumsum(n_here) - n_here
        shift = np.repeat(cursor - first_here, n_here)  # from the sorted block to the file
        at, order = np.arange(block.size) + shift, start + stable_order(block)
        positions[at] = first + order
        cursor += n_here
        yield at, order


def create_section_statistics(folder: Path, arrays: WordArrays) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Create the array of the sections of occurrences; yield the tasks that fill it."""
    sizes = arrays.sizes(MAX_PER_WORD)
    path, narrow = folder / files.OCCURRENCE_SECTIONS, np.min_scalar_type(arrays.n_metadata - 1)
    create_array(path, int(sizes.sum()), narrow)
    first_entry = np.cumsum(sizes) - sizes
    for number, block in enumerate(arrays.blocks()):
        yield number, block, int(first_entry[block[0]])


def gather_sections(
    task: tuple[int, tuple[int, int], int], *, folder: Path, arrays: WordArrays
) -> tuple[int, WordBlock]:
    """Write the sections of the occurrences of some words, and return the counts by section."""
    number, block, first_entry = task
    gathered = arrays.gather(block, max_per_word=MAX_PER_WORD)
    _write(folder / files.OCCURRENCE_SECTIONS, gathered.occurrences, at=first_entry)
    return number, gathered._replace(occurrences=gathered.occurrences[:0])


def _gather_placed(
    task: tuple[int, tuple[int, int], int], *, folder: Path, n_sections: int
) -> tuple[int, WordBlock]:
    return gather_sections(task, folder=folder, arrays=_placed_sections(folder, n_sections))


def _placed_sections(folder: Path, n_sections: int) -> WordArrays:
    of_occurrences = np.asarray(files.map_array(folder.parent / _SECTIONS))
    offsets = np.asarray(files.map_array(folder / files.WORD_OFFSETS))
    return WordArrays(offsets, of_occurrences.__getitem__, n_sections)


def write_section_counts(folder: Path, found: Iterable[tuple[int, WordBlock]]) -> None:
    """Write the counts of words by section, each array in its narrowest type."""
    blocks = [block for _, block in sorted(found, key=lambda each: each[0])]
    for name, array in zip(files.SECTION_COUNTS, join_counts(blocks), strict=True):
        np.save(folder / name, array.astype(np.min_scalar_type(int(array.max()))))


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the stable order of ids below 2**32, by their low 16 bits, then their high bits.

    numpy uses radix sort for 16-bit numbers, which is several times faster.
    """
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    high = ids >> 16
    return order[np.argsort(high[order].astype(np.uint16), kind="stable")] if high.any() else order
