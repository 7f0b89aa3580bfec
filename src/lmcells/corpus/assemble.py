"""The second half of a build: from shards to the arrays of a corpus, in memory proportional to the distinct words.

Shards are processed in parallel, three times. First headers are resolved and words counted, which gives the vocabulary;
then words become ids, which gives the position of each shard in the arrays; then the arrays are written.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.corpus import corpus as files
from lmcells.corpus.sections import count_in_segments, number_sections, resolve
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard, distinct
from lmcells.corpus.statistics import create_occurrences, place_occurrences
from lmcells.errors import InputError
from lmcells.files import read_json, write_json
from lmcells.processes import Run

NO_VALUE = "<none>"
_BUFFER = 1 << 20  # hashes to collect before merging
_LOCAL_BITS = 32  # a word's place is its shard's number, then its index there in this many bits
_HASHES, _VALUES = "vocabulary.hashes.npy", "values.json"
_NUMBERED = "numbered"  # a folder in a shard's, with the following and the names of a corpus' files
_COUNTS, _LENGTHS = "counts.npy", "lengths.npy"
_MAX_TOGETHER = 8  # shards that one task counts, or places


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
    section_ids = number_sections(
        headers, min_count=settings.min_header_count, merge_rare=settings.sections == "paper"
    )
    numbered = list(enumerate(shards))
    # A task has several shards, so that there are fewer counts to merge and fewer pages to map.
    together = min(_MAX_TOGETHER, -(-len(shards) // (2 * workers)))
    groups = [numbered[first : first + together] for first in range(0, len(shards), together)]
    counts = _sum_counts(run(partial(_count_words, section_ids=section_ids), groups))
    words, word_counts, hashes = _vocabulary(counts, min_count=settings.min_count, shards=shards)
    if not words:
        raise InputError(
            f"no word occurs more than {settings.min_count} times. Give more notes, or a lower --min-count."
        )
    names = {"section": list(section_ids)}
    for kind, n_of in values.items():
        names[kind] = sorted(n_of, key=lambda value: (-n_of[value], value))
    write_json(folder / files.VOCABULARY, words)
    np.save(folder / files.WORD_COUNTS, word_counts)
    for kind, of_kind in names.items():
        write_json(folder / files.metadata_names(kind), [name or NO_VALUE for name in of_kind])
    np.save(work / _HASHES, hashes)
    ids_of_values = {kind: {name: id_ for id_, name in enumerate(names[kind])} for kind in values}
    write_json(work / _VALUES, ids_of_values)

    on_step("numbering words")
    sizes = np.zeros((3, len(shards) + 1), np.int64)  # tokens, segments and documents before each shard
    for number, *of_shard in run(partial(_number_words, section_ids=section_ids, work=work), numbered):
        sizes[:, number + 1] = of_shard
    before = np.cumsum(sizes, axis=1)
    n_tokens, n_segments, n_documents = before[:, -1].tolist()
    with (folder / files.metadata_names("document")).open("w", encoding="utf-8") as document_names:
        document_names.write("[")
        for number, shard in numbered:
            document_names.write((", " if number else "") + Shard(shard).document_ids[1:-1])
        document_names.write("]\n")

    on_step("writing tokens")
    kinds = (*names, "document")
    for name, size in (
        *((name, n_tokens) for name in (files.TOKENS, files.TOKEN_SEGMENT)),
        *((files.metadata_ids(kind), n_segments) for kind in kinds),
    ):
        files.create_array(folder / name, size)
    offsets = create_occurrences(folder, word_counts)

    def placed() -> Iterator[tuple[list[tuple[Path, list[int]]], npt.NDArray[np.int64]]]:
        cursor = offsets[:-1].copy()
        for group in groups:
            yield [(shard, before[:, number].tolist()) for number, shard in group], cursor.copy()
            for _, shard in group:
                cursor += np.load(shard / _NUMBERED / _COUNTS, allow_pickle=False)

    for _ in run(partial(_place, folder=folder), placed()):
        pass
    return (
        {
            "n_tokens": n_tokens,
            "n_words": len(words),
            "n_segments": n_segments,
            "n_documents": n_documents,
        },
        {kind: len(of_kind) for kind, of_kind in names.items()} | {"document": n_documents},
    )


HashArrays = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Hashes of words, their counts, and the position of each word's first occurrence."""


def _count_words(shards: Sequence[tuple[int, Path]], *, section_ids: dict[str, int]) -> HashArrays:
    counted: list[HashArrays] = []
    for number, path in shards:
        shard = Shard(path)
        counts = np.bincount(resolve(shard, section_ids).tokens, minlength=shard.hashes.size)
        counted.append((shard.hashes, counts, (number << _LOCAL_BITS) + np.arange(shard.hashes.size)))
    return _merged(counted)


def _sum_counts(counted: Iterable[HashArrays]) -> HashArrays:
    """Add up the counts of shards, in 24 bytes per distinct word, for any number of shards."""
    empty = np.zeros(0, np.int64)
    pending: list[HashArrays] = [(np.zeros(0, np.uint64), empty, empty)]
    n_pending = 0
    for of_shard in counted:
        pending.append(of_shard)
        n_pending += of_shard[0].size
        if n_pending > max(_BUFFER, pending[0][0].size):
            pending, n_pending = [_merged(pending)], 0
    return _merged(pending)


def _merged(counted: Sequence[HashArrays]) -> HashArrays:
    hashes, counts, places = (np.concatenate(parts) for parts in zip(*counted, strict=True))
    first, group = distinct(hashes)
    totals, first_places = np.zeros(first.size, np.int64), places[first]
    np.add.at(totals, group, counts)
    np.minimum.at(first_places, group, places)
    return hashes[first], totals, first_places


def _vocabulary(
    counts: HashArrays, *, min_count: int, shards: Sequence[Path]
) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return the frequent words, the most frequent first, then by spelling; their counts and their hashes."""
    hashes, frequencies, places = counts
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
    return [words[index] for index in order.tolist()], frequencies[order], hashes[order]


def _number_words(
    task: tuple[int, Path], *, section_ids: dict[str, int], work: Path
) -> tuple[int, int, int, int]:
    """Replace words by their ids and drop rare ones; return the shard's number and its remaining sizes."""
    shard_number, path = task
    hashes, ids_of_values = np.load(work / _HASHES), read_json(work / _VALUES)
    shard = Shard(path)
    resolved = resolve(shard, section_ids)
    # The vocabulary comes first, so its words are numbered as in the vocabulary.
    _, number = distinct(np.concatenate([hashes, shard.hashes]))
    id_of_word = number[hashes.size :]
    id_of_word[id_of_word >= hashes.size] = -1
    tokens = id_of_word.astype(np.int32).take(resolved.tokens)
    is_rare = tokens < 0
    rare = np.flatnonzero(is_rare)
    tokens = tokens[~is_rare] if rare.size else tokens
    # Segments without a word left are dropped.
    n_words_in = resolved.segment_tokens - count_in_segments(rare, resolved.segment_tokens)
    used = np.flatnonzero(n_words_in)
    documents = resolved.segment_document[used]
    numbered: dict[str, npt.NDArray[Any]] = {
        _COUNTS: np.bincount(tokens, minlength=hashes.size),
        _LENGTHS: n_words_in[used],
        files.TOKENS: tokens,
        files.SECTION_IDS: resolved.segment_section[used],
        files.metadata_ids("document"): documents,
    }
    for kind, ids_of_kind in ids_of_values.items():
        names, of_document = shard.document_metadata(kind)
        ids = np.array([ids_of_kind[name] for name in names], np.int32)
        numbered[files.metadata_ids(kind)] = ids[of_document][documents]
    (path / _NUMBERED).mkdir(exist_ok=True)
    for name, array in numbered.items():  # faster than `.npz`, which computes checksums
        np.save(path / _NUMBERED / name, array)
    return shard_number, tokens.size, used.size, shard.n_documents


def _place(task: tuple[list[tuple[Path, list[int]]], npt.NDArray[np.int64]], *, folder: Path) -> None:
    """Write the tokens, metadata and occurrences of some shards to where they belong in a corpus."""
    shards, cursor = task
    place_occurrences(folder, (_write_shard(*shard, folder=folder) for shard in shards), cursor=cursor)


def _write_shard(path: Path, before: list[int], *, folder: Path) -> tuple[int, npt.NDArray[np.integer]]:
    n_tokens, n_segments, n_documents = before
    numbered = {each.name: np.load(each, allow_pickle=False) for each in (path / _NUMBERED).iterdir()}
    tokens, lengths = numbered.pop(files.TOKENS), numbered.pop(_LENGTHS)
    del numbered[_COUNTS]
    numbered[files.metadata_ids("document")] += n_documents
    segments = np.arange(n_segments, n_segments + lengths.size, dtype=np.int32)
    files.write_array(folder / files.TOKENS, tokens, at=n_tokens)
    files.write_array(folder / files.TOKEN_SEGMENT, np.repeat(segments, lengths), at=n_tokens)
    for name, ids in numbered.items():
        files.write_array(folder / name, ids, at=n_segments)
    return n_tokens, tokens
