"""The second half of a build: from shards to the arrays of a corpus, in memory proportional to the distinct words.

Consecutive shards form groups, which are processed in parallel. First headers are resolved and words counted, which
gives the vocabulary; then words become ids, which gives the position of each group in the arrays; then the arrays are
written.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import corpus as files
from lmcells.corpus.sections import ResolvedShard, SectionTable, count_in_segments, resolve
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard, distinct
from lmcells.corpus.statistics import create_occurrences, place_occurrences
from lmcells.errors import InputError
from lmcells.files import read_json, write_json
from lmcells.processes import Run

NO_VALUE = "<none>"
_BUFFER = 1 << 20  # hashes to collect before merging
_LOCAL_BITS = 32  # a word's place is its shard's number, then its index there in this many bits
_MAX_SHARDS = 4  # of a group, which a worker holds in memory


class _Group(NamedTuple):
    number: int
    first_shard: int
    shards: list[Path]

    def path(self, what: str) -> Path:
        """Return the path of a temporary file of the group."""
        return self.shards[0].with_name(f"group-{self.number:04}.{what}")


def assemble(
    shards: list[Path],
    folder: Path,
    *,
    headers: Counter[tuple[str, str]],
    values: dict[str, Counter[str]],
    settings: CorpusSettings,
    run: Run,
    workers: int,
    on_step: Callable[[str], None],
) -> tuple[dict[str, int], dict[str, int]]:
    """Write the arrays and names of a corpus; return its sizes and the number of values of each metadata.

    `headers` counts headers as written with their canonical names, `values` those of each other kind of metadata.
    """
    on_step("counting words")
    work = folder.parent
    sections = SectionTable.of_counts(
        headers, min_count=settings.min_header_count, merge_rare=settings.sections == "paper"
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
    for kind, n_of in values.items():
        names[kind] = sorted(n_of, key=lambda value: (-n_of[value], value))
    write_json(folder / files.VOCABULARY, vocabulary.words)
    np.save(folder / files.WORD_COUNTS, vocabulary.counts)
    for kind, of_kind in names.items():
        write_json(folder / files.metadata_names(kind), [name or NO_VALUE for name in of_kind])
    np.save(work / _HASHES, vocabulary.hashes)
    ids_of_values = {kind: {name: id_ for id_, name in enumerate(names[kind])} for kind in values}
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
        files.create_array(folder / name, size)
    cursor = create_occurrences(folder, vocabulary.counts)[:-1].copy()
    for group in groups:
        np.save(group.path("cursor.npy"), cursor)
        cursor += np.load(group.path("counts.npy"), allow_pickle=False)
    placed = [(group, before[:, group.number].tolist()) for group in groups]
    for _ in run(partial(_place_group, folder=folder), placed):
        pass
    return (
        {
            "n_tokens": n_tokens,
            "n_words": len(vocabulary.words),
            "n_segments": n_segments,
            "n_documents": n_documents,
        },
        {kind: len(of_kind) for kind, of_kind in names.items()} | {"document": n_documents},
    )


HashArrays = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Hashes of words, their counts, and the place of each word's first occurrence."""


def _resolve_group(group: _Group, *, sections: SectionTable) -> HashArrays:
    counts = HashCounts()
    for number, path in enumerate(group.shards, start=group.first_shard):
        shard = Shard(path)
        resolved = resolve(shard, sections)
        of_words = np.bincount(resolved.tokens, minlength=shard.hashes.size)
        _save(_resolved(path), {**resolved._asdict(), "counts": of_words})
        places = (number << _LOCAL_BITS) + np.arange(shard.hashes.size)
        counts.add(shard.hashes, of_words, places)
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
        """Return all hashes, with their counts and first places."""
        hashes, counts, places = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        first, group = distinct(hashes)
        totals, first_places = np.zeros(first.size, np.int64), places[first]
        np.add.at(totals, group, counts)
        np.minimum.at(first_places, group, places)
        self._pending, self._n_pending = [(hashes[first], totals, first_places)], 0
        return self._pending[0]


_HASHES, _VALUES = "vocabulary.hashes.npy", "values.json"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a corpus, most frequent first."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]

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
        return cls([words[index] for index in order.tolist()], frequencies[order], hashes[order])


def _number_group(group: _Group, *, work: Path) -> tuple[int, int, int, int]:
    """Replace words by their ids and drop rare ones; return the group's number and its remaining sizes."""
    hashes, ids_of_values = np.load(work / _HASHES), read_json(work / _VALUES)
    counts = np.zeros(hashes.size, np.int64)
    parts: dict[str, list[npt.NDArray[np.integer]]] = {}
    document_ids: list[str] = []
    for path in group.shards:
        shard = Shard(path)
        arrays = _load(_resolved(path))
        of_words, resolved = arrays.pop("counts"), ResolvedShard(**arrays)
        # The vocabulary comes first, so its words are numbered as in the vocabulary.
        _, number = distinct(np.concatenate([hashes, shard.hashes]))
        id_of_word = number[hashes.size :]
        id_of_word[id_of_word >= hashes.size] = -1
        known = np.flatnonzero(id_of_word >= 0)
        counts[id_of_word[known]] += of_words[known]
        tokens = id_of_word.astype(np.int32).take(resolved.tokens)
        is_rare = tokens < 0
        # Segments without a word left are dropped.
        rare = np.flatnonzero(is_rare)
        n_words_in = resolved.segment_tokens - count_in_segments(rare, resolved.segment_tokens)
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
    np.save(group.path("counts.npy"), counts)
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
    files.write_array(folder / files.TOKENS, tokens, at=n_tokens)
    files.write_array(folder / files.TOKEN_SEGMENT, np.repeat(segments, lengths), at=n_tokens)
    for kind, ids in joined.items():
        files.write_array(folder / files.metadata_ids(kind), ids, at=n_segments)
    cursor = np.load(group.path("cursor.npy"), allow_pickle=False)
    place_occurrences(folder, tokens, first=n_tokens, cursor=cursor)
