"""The second half of a build: shards -> the arrays of a corpus."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from lmcells.corpus import layout
from lmcells.corpus.arrays import ArrayWriter, map_array
from lmcells.corpus.occurrences import write_occurrences
from lmcells.corpus.resolve import ResolvedShard, count_in_segments, load_resolved, resolve
from lmcells.corpus.sections import HeaderCounts
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.shard import Shard
from lmcells.corpus.vocabulary import HashCounts, Vocabulary, name_words
from lmcells.files import write_json

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
