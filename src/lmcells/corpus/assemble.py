"""The second half of a build: shards -> the arrays of a corpus."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.corpus import layout
from lmcells.corpus.layout import ArrayWriter, id_dtype, map_array
from lmcells.corpus.sections import STAYS_IN_BODY, HeaderCounts, SectionTable
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard, stable_order
from lmcells.files import write_json

# Which words are frequent enough, found with memory for their hashes alone.


_BUFFER = 1 << 20


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
        first = (
            np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
            if hashes.size
            else np.zeros(0, np.int64)
        )
        self._hashes, self._counts = hashes[first], np.add.reduceat(counts, first) if first.size else counts
        self._pending, self._n_pending = [], 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The corpus' words, the most frequent first."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    _sorted_hashes: npt.NDArray[np.uint64]
    _id_of_sorted: npt.NDArray[np.int32]

    def ids_of(self, shard: Shard) -> npt.NDArray[np.int32]:
        """Return the id of each of a shard's words, or -1."""
        if not self._sorted_hashes.size:
            return np.full(shard.hashes.size, -1, np.int32)
        at = np.minimum(np.searchsorted(self._sorted_hashes, shard.hashes), self._sorted_hashes.size - 1)
        return np.where(self._sorted_hashes[at] == shard.hashes, self._id_of_sorted[at], np.int32(-1))


def name_words(counts: HashCounts, *, min_count: int, shards: Callable[[], Iterable[Shard]]) -> Vocabulary:
    """Find the spellings of the frequent words in the shards, and number them by frequency, then spelling."""
    hashes, frequencies = counts.more_frequent_than(min_count)
    spellings: list[str | None] = [None] * hashes.size
    missing = np.ones(hashes.size, np.bool_)
    for shard in shards():
        if not missing.any():
            break
        at = np.minimum(np.searchsorted(hashes, shard.hashes), hashes.size - 1)
        found = np.flatnonzero((hashes[at] == shard.hashes) & missing[at])
        for index, local in zip(at[found].tolist(), found.tolist(), strict=True):
            spellings[index] = shard.spellings[local]
        missing[at[found]] = False
    words = [spelling for spelling in spellings if spelling is not None]
    by_spelling = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
    order = by_spelling[np.argsort(-frequencies[by_spelling], kind="stable")]
    id_of_sorted = np.zeros(hashes.size, np.int32)
    id_of_sorted[order] = np.arange(len(order), dtype=np.int32)
    return Vocabulary([words[index] for index in order.tolist()], frequencies[order], hashes, id_of_sorted)


# A shard as the corpus sees it, once it is decided which headers are sections.


@dataclass(frozen=True, slots=True)
class ResolvedShard:
    """Body tokens in order, segment after segment; segments with their length, section and document."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    segment_tokens: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]

    def save(self, path: Path) -> None:
        """Write it to a file, where it waits until the vocabulary is known."""
        with path.open("wb") as file:
            for field in fields(self):
                np.save(file, getattr(self, field.name), allow_pickle=False)


def load_resolved(path: Path) -> ResolvedShard:
    """Read what `save` wrote."""
    with path.open("rb") as file:
        return ResolvedShard(*(np.load(file, allow_pickle=False) for _ in fields(ResolvedShard)))


def resolve(shard: Shard, sections: SectionTable) -> ResolvedShard:
    """Drop the tokens of headers that are sections, not of those that stay in the body; drop repeats."""
    section = sections.ids_of(shard)
    first_of_document = np.ones(section.size, np.bool_)
    first_of_document[1:] = shard.segment_document[1:] != shard.segment_document[:-1]
    in_body = section == STAYS_IN_BODY
    begins = np.flatnonzero(~in_body | first_of_document)  # text never joins the previous note
    section = np.where(
        in_body, 0, section
    )  # the first of a note, with a header that stays in the body, has no section

    lengths = np.stack(
        [shard.segment_header_tokens, shard.segment_tokens - shard.segment_header_tokens], axis=1
    )
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    tokens = shard.tokens[np.flatnonzero(np.repeat(kept_parts.ravel(), lengths.ravel()))]
    segment_tokens = np.add.reduceat((lengths * kept_parts).sum(axis=1), begins)

    repeats = find_repeats(tokens, segment_tokens)
    return ResolvedShard(
        tokens=np.delete(tokens, repeats),
        segment_tokens=segment_tokens - count_in_segments(repeats, segment_tokens),
        segment_section=section[begins],
        segment_document=shard.segment_document[begins],
    )


def find_repeats(
    tokens: npt.NDArray[np.integer], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Return where a word stands right after itself, in one segment."""
    repeats = np.flatnonzero(tokens[1:] == tokens[:-1]) + 1
    segment_ends = np.cumsum(segment_tokens)  # where the next one starts
    within: npt.NDArray[np.int64] = repeats[segment_ends[np.searchsorted(segment_ends, repeats)] != repeats]
    return within


def count_in_segments(
    places: npt.NDArray[np.int64], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Count the places, given in order, that lie in each segment."""
    n_before: npt.NDArray[np.int64] = np.searchsorted(places, np.cumsum(segment_tokens))
    return np.diff(n_before, prepend=0)


# The places of each word, grouped by word: drawing one at random draws a section from p(section | word).


_BLOCK = 1 << 20


def write_occurrences(
    path: Path, tokens: npt.NDArray[np.integer], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sort the positions of all tokens by word, block by block, and return where each word's begin."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    dtype = id_dtype(tokens.size)
    if not tokens.size:
        np.save(path, np.zeros(0, dtype))
        return offsets
    positions = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(tokens.size,))
    cursor = offsets[:-1].copy()
    for start in range(0, tokens.size, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK])
        n_here = np.bincount(block, minlength=counts.size)
        first_here = np.cumsum(n_here) - n_here
        shift = np.repeat(
            cursor - first_here, n_here
        )  # from the place in the sorted block to the place in the file
        positions[np.arange(block.size) + shift] = start + stable_order(block)
        cursor += n_here
    return offsets


# The second half of a build: shards -> the arrays of a corpus.


NO_VALUE = "<none>"


def assemble(
    paths: Sequence[Path], folder: Path, *, settings: CorpusSettings, on_step: Callable[[str], None]
) -> tuple[dict[str, int], dict[str, int]]:
    """Write all files of a corpus but its manifest; return its sizes and the number of values of each metadata."""

    def shards() -> Iterator[Shard]:
        return map(Shard, paths)

    resolved_paths = [path.with_name(f"resolved-{path.name}.npy") for path in paths]

    on_step("counting headers and words")
    headers = HeaderCounts()
    values: dict[str, Counter[str]] = {kind: Counter() for kind in settings.metadata_kinds}
    for shard in shards():
        headers.add(shard)
        for kind, counter in values.items():
            counter.update(shard.document_metadata[kind])
    sections = headers.table(min_count=settings.min_header_count, merge_rare=settings.sections == "paper")
    value_names = {
        kind: sorted(counter, key=lambda value: (-counter[value], value)) for kind, counter in values.items()
    }
    counts = HashCounts()
    for shard, path in zip(shards(), resolved_paths, strict=True):
        resolved = resolve(shard, sections)
        resolved.save(path)
        counts.add(shard.hashes, np.bincount(resolved.tokens, minlength=shard.hashes.size))
    vocabulary = name_words(counts, min_count=settings.min_count, shards=shards)

    on_step("writing tokens")
    n_segments, n_documents = _write_tokens(
        zip(shards(), map(load_resolved, resolved_paths), strict=True), folder, vocabulary, value_names
    )
    write_json(folder / layout.VOCABULARY, vocabulary.words)
    np.save(folder / layout.WORD_COUNTS, vocabulary.counts)
    write_json(folder / layout.metadata_names("section"), sections.names)
    for kind, names in value_names.items():
        write_json(folder / layout.metadata_names(kind), [name or NO_VALUE for name in names])

    on_step("grouping occurrences")
    tokens = map_array(folder / layout.TOKENS)
    np.save(
        folder / layout.WORD_OFFSETS,
        write_occurrences(folder / layout.OCCURRENCES, tokens, vocabulary.counts),
    )
    sizes = {
        "n_tokens": int(tokens.size),
        "n_words": len(vocabulary.words),
        "n_segments": n_segments,
        "n_documents": n_documents,
    }
    n_values = {kind: len(names) for kind, names in value_names.items()}
    return sizes, {"section": len(sections.names), **n_values, "document": n_documents}


def _write_tokens(
    shards: Iterable[tuple[Shard, ResolvedShard]],
    folder: Path,
    vocabulary: Vocabulary,
    value_names: dict[str, list[str]],
) -> tuple[int, int]:
    id_of_value = {kind: {name: id_ for id_, name in enumerate(names)} for kind, names in value_names.items()}
    n_segments = n_documents = 0
    with ExitStack() as stack:
        token_file = stack.enter_context(ArrayWriter(folder / layout.TOKENS, np.int32))
        segment_file = stack.enter_context(ArrayWriter(folder / layout.TOKEN_SEGMENT, np.int32))
        metadata_files = {
            kind: stack.enter_context(ArrayWriter(folder / layout.metadata_ids(kind), np.int32))
            for kind in ("section", *value_names, "document")
        }
        document_names = stack.enter_context(
            (folder / layout.metadata_names("document")).open("w", encoding="utf-8")
        )
        document_names.write("[")
        for shard, resolved in shards:
            tokens = np.take(vocabulary.ids_of(shard), resolved.tokens)
            unknown = np.flatnonzero(tokens < 0)
            # Segments that are left without a word are dropped, the others numbered on.
            n_words_in = resolved.segment_tokens - count_in_segments(unknown, resolved.segment_tokens)
            used = np.flatnonzero(n_words_in)
            token_file.append(np.delete(tokens, unknown))
            segments = np.arange(n_segments, n_segments + used.size, dtype=np.int32)
            segment_file.append(np.repeat(segments, n_words_in[used]))
            documents = resolved.segment_document[used]
            metadata_files["section"].append(resolved.segment_section[used])
            metadata_files["document"].append(n_documents + documents)
            for kind, ids in id_of_value.items():
                by_document = np.array([ids[value] for value in shard.document_metadata[kind]], np.int32)
                metadata_files[kind].append(by_document[documents])
            names = json.dumps(shard.document_ids, ensure_ascii=False)[1:-1]
            document_names.write((", " if n_documents else "") + names)
            n_segments += used.size
            n_documents += len(shard.document_ids)
        document_names.write("]\n")
    return n_segments, n_documents
