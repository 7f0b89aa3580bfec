"""The second half of a build: shards -> the arrays of a corpus, with memory for distinct words alone."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import corpus as files
from lmcells.corpus.sections import STAYS_IN_BODY, SectionTable
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard
from lmcells.errors import InputError
from lmcells.files import write_json

NO_VALUE = "<none>"
_BUFFER = 1 << 20  # hashes that wait to be merged
_BLOCK = 1 << 20  # tokens sorted at a time


def assemble(
    paths: Sequence[Path],
    folder: Path,
    *,
    settings: CorpusSettings,
    metadata_kinds: Sequence[str],
    on_step: Callable[[str], None],
) -> tuple[dict[str, int], dict[str, int]]:
    """Write all files of a corpus but its manifest; return its sizes and the number of values of each metadata."""
    on_step("counting headers and words")
    least, merge_rare = settings.min_header_count, settings.sections == "paper"
    sections = SectionTable.count(map(Shard, paths), min_count=least, merge_rare=merge_rare)
    value_names = {kind: _by_frequency(map(Shard, paths), kind) for kind in metadata_kinds}
    resolved_paths = [path.with_name(f"resolved-{path.name}.npz") for path in paths]
    counts = HashCounts()
    for shard, path in zip(map(Shard, paths), resolved_paths, strict=True):
        resolved = resolve(shard, sections)
        np.savez(path, **resolved._asdict())
        counts.add(shard.hashes, np.bincount(resolved.tokens, minlength=shard.hashes.size))
    vocabulary = Vocabulary.of_frequent_words(counts, min_count=settings.min_count, shards=map(Shard, paths))
    if not vocabulary.words:
        raise InputError(
            f"no word is seen more than {settings.min_count} times. Give more notes, or a lower --min-count."
        )

    on_step("writing tokens")
    n_segments, n_documents = _write_tokens(paths, resolved_paths, folder, vocabulary, value_names)
    write_json(folder / files.VOCABULARY, vocabulary.words)
    np.save(folder / files.WORD_COUNTS, vocabulary.counts)
    write_json(folder / files.metadata_names("section"), list(sections.id_of_name))
    for kind, names in value_names.items():
        write_json(folder / files.metadata_names(kind), [name or NO_VALUE for name in names])

    on_step("grouping occurrences")
    tokens = files.map_array(folder / files.TOKENS)
    write_occurrences(folder, tokens, vocabulary.counts)
    sizes = {
        "n_tokens": int(tokens.size),
        "n_words": len(vocabulary.words),
        "n_segments": n_segments,
        "n_documents": n_documents,
    }
    n_values = {kind: len(names) for kind, names in value_names.items()}
    return sizes, {"section": len(sections.id_of_name), **n_values, "document": n_documents}


def _by_frequency(shards: Iterable[Shard], kind: str) -> list[str]:
    counter: Counter[str] = Counter()
    for shard in shards:
        counter.update(shard.document_metadata[kind])
    return sorted(counter, key=lambda value: (-counter[value], value))


class ResolvedShard(NamedTuple):
    """A shard once it is decided which headers are sections: body tokens in order, segment after segment."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    segment_tokens: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]


def resolve(shard: Shard, sections: SectionTable) -> ResolvedShard:
    """Drop the tokens of headers that are sections, keep those of headers that stay in the body; drop repeats."""
    document, _, n_header_tokens, n_tokens = shard.segments
    section = sections.ids_of(shard)
    in_body = section == STAYS_IN_BODY
    first_of_document = np.append(True, document[1:] != document[:-1])
    begins = np.flatnonzero(~in_body | first_of_document)  # text never joins the previous note
    section = np.where(in_body, 0, section)  # a note may begin with a header of the body

    lengths = np.stack([n_header_tokens, n_tokens - n_header_tokens], axis=1)
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    tokens = shard.tokens[np.flatnonzero(np.repeat(kept_parts.ravel(), lengths.ravel()))]
    segment_tokens = np.add.reduceat((lengths * kept_parts).sum(axis=1), begins)

    repeats = np.flatnonzero(tokens[1:] == tokens[:-1]) + 1  # a word right after itself, in one segment
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
    """Count the positions, given in order, that lie in each segment."""
    return np.diff(np.searchsorted(positions, np.cumsum(segment_tokens)), prepend=0)


class HashCounts:
    """Counts of words by hash: 16 bytes a distinct word, however many shards there are."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)
        self._pending: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = []
        self._n_pending = 0

    def add(self, hashes: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> None:
        """Count a shard's words."""
        self._pending.append((hashes, counts))
        self._n_pending += hashes.size
        if self._n_pending > max(_BUFFER, self._hashes.size):
            self._merge()

    def more_frequent_than(self, min_count: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return the hashes, sorted, and counts of the words seen more often than this."""
        self._merge()
        frequent = self._counts > min_count
        return self._hashes[frequent], self._counts[frequent]

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *(hashes for hashes, _ in self._pending)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._pending)])
        order = np.argsort(hashes)
        hashes, counts = hashes[order], counts[order]
        first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: hashes.size])
        self._hashes, self._counts = hashes[first], np.add.reduceat(counts, first) if first.size else counts
        self._pending, self._n_pending = [], 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a corpus, the most frequent first."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    _sorted_hashes: npt.NDArray[np.uint64]
    _id_of_sorted: npt.NDArray[np.int32]

    @classmethod
    def of_frequent_words(cls, counts: HashCounts, *, min_count: int, shards: Iterable[Shard]) -> Self:
        """Find the spellings of the frequent words in the shards, and number them by frequency, then spelling."""
        hashes, frequencies = counts.more_frequent_than(min_count)
        words = [""] * hashes.size
        missing = np.ones(hashes.size, np.bool_)
        for shard in shards:
            if not missing.any():
                break
            at = np.minimum(np.searchsorted(hashes, shard.hashes), hashes.size - 1)
            found = np.flatnonzero((hashes[at] == shard.hashes) & missing[at])
            for index, local in zip(at[found].tolist(), found.tolist(), strict=True):
                words[index] = shard.spellings[local]
            missing[at[found]] = False
        by_spelling = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
        order = by_spelling[np.argsort(-frequencies[by_spelling], kind="stable")]
        id_of_sorted = np.zeros(hashes.size, np.int32)
        id_of_sorted[order] = np.arange(len(order), dtype=np.int32)
        return cls([words[index] for index in order.tolist()], frequencies[order], hashes, id_of_sorted)

    def ids_of(self, shard: Shard) -> npt.NDArray[np.int32]:
        """Return the id of each of a shard's words, or -1."""
        at = np.minimum(np.searchsorted(self._sorted_hashes, shard.hashes), self._sorted_hashes.size - 1)
        return np.where(self._sorted_hashes[at] == shard.hashes, self._id_of_sorted[at], np.int32(-1))


def _write_tokens(
    paths: Sequence[Path],
    resolved_paths: Sequence[Path],
    folder: Path,
    vocabulary: Vocabulary,
    value_names: dict[str, list[str]],
) -> tuple[int, int]:
    """Write tokens and metadata, and return how many segments and documents there are."""
    id_of_value = {kind: {name: id_ for id_, name in enumerate(names)} for kind, names in value_names.items()}
    kinds = ("section", *value_names, "document")
    metadata: dict[str, list[npt.NDArray[np.integer]]] = {kind: [] for kind in kinds}
    n_tokens, n_segments, n_documents = int(vocabulary.counts.sum()), 0, 0
    names_path = folder / files.metadata_names("document")
    with (
        create_array(folder / files.TOKENS, n_tokens) as token_file,
        create_array(folder / files.TOKEN_SEGMENT, n_tokens) as segment_file,
        names_path.open("w", encoding="utf-8") as document_names,
    ):
        document_names.write("[")
        for path, resolved_path in zip(paths, resolved_paths, strict=True):
            shard = Shard(path)
            with np.load(resolved_path, allow_pickle=False) as arrays:
                resolved = ResolvedShard(**arrays)
            tokens = np.take(vocabulary.ids_of(shard), resolved.tokens)
            rare = np.flatnonzero(tokens < 0)
            # Segments that are left without a word are dropped, the others numbered on.
            n_words_in = resolved.segment_tokens - _count_in_segments(rare, resolved.segment_tokens)
            used = np.flatnonzero(n_words_in)
            segments = np.arange(n_segments, n_segments + used.size, dtype=np.int32)
            token_file.write(np.delete(tokens, rare).data)
            segment_file.write(np.repeat(segments, n_words_in[used]).data)
            documents = resolved.segment_document[used]
            metadata["section"].append(resolved.segment_section[used])
            metadata["document"].append(n_documents + documents)
            for kind, ids in id_of_value.items():
                by_document = np.array([ids[value] for value in shard.document_metadata[kind]], np.int32)
                metadata[kind].append(by_document[documents])
            names = json.dumps(shard.document_ids, ensure_ascii=False)[1:-1]
            document_names.write((", " if n_documents else "") + names)
            n_segments += used.size
            n_documents += len(shard.document_ids)
        document_names.write("]\n")
    for kind, parts in metadata.items():
        np.save(folder / files.metadata_ids(kind), np.concatenate(parts).astype(np.int32))
    return n_segments, n_documents


def create_array(path: Path, size: int) -> BinaryIO:
    """Open a new `.npy` file for so many int32, after its header; the caller writes them piece by piece."""
    file = path.open("wb")
    header = {"descr": np.dtype(np.int32).str, "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file


def write_occurrences(folder: Path, tokens: npt.NDArray[np.integer], counts: npt.NDArray[np.int64]) -> None:
    """Write the positions of all tokens grouped by word, and where each word's begin.

    A random occurrence of a word draws a section from p(section | word).
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    np.save(folder / files.WORD_OFFSETS, offsets)
    dtype = np.int32 if tokens.size < 2**31 else np.int64  # torch indexes with signed types only
    path = folder / files.OCCURRENCES
    positions = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(tokens.size,))
    cursor = offsets[:-1].copy()
    for start in range(0, tokens.size, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK])
        n_here = np.bincount(block, minlength=counts.size)
        first_here = np.cumsum(n_here) - n_here
        shift = np.repeat(cursor - first_here, n_here)  # from the sorted block to the file
        positions[np.arange(block.size) + shift] = start + stable_order(block)
        cursor += n_here


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the order that sorts ids below 2**31, stably.

    Each id is sorted together with its position, as one number: numpy sorts numbers faster than it finds their order.
    """
    bits = int(ids.size).bit_length()
    order: npt.NDArray[np.int64] = (ids.astype(np.int64) << bits) | np.arange(ids.size)
    order.sort()
    order &= (1 << bits) - 1
    return order
