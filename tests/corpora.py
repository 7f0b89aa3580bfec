"""Corpora that tests build from notes of their own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.corpus.build import NoteSource, build_corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.notes.readers import Columns
from note_files import write_jsonl


def corpus_of(
    folder: Path,
    notes: Iterable[str | dict[str, Any]],
    *,
    workers: int = 1,
    exclude_ids: Path | None = None,
    **settings: Any,
) -> Corpus:
    """Build a corpus from texts or JSON documents; every word and header counts unless said otherwise."""
    rows = [{"id": f"t/{i}", "text": note} if isinstance(note, str) else note for i, note in enumerate(notes)]
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "notes.jsonl", rows)
    chosen = CorpusSettings(**{"min_count": 0, "min_header_count": 1, **settings})
    source = NoteSource(
        paths=[folder / "notes.jsonl"],
        columns=Columns(metadata=chosen.metadata_columns),
        exclude_ids=exclude_ids,
    )
    build_corpus(source, folder / "corpus", settings=chosen, workers=workers, overwrite=True)
    return Corpus.open(folder / "corpus", verify=True)


def segments(corpus: Corpus, kind: str = "section") -> list[tuple[str, list[str]]]:
    """Return each segment's metadata and words."""
    names, ids = corpus.metadata_names(kind), corpus.segment_metadata(kind)
    found: list[tuple[str, list[str]]] = [(names[index], []) for index in ids]
    for token, segment in zip(corpus.tokens.tolist(), corpus.token_segment.tolist(), strict=True):
        found[segment][1].append(corpus.words[token])
    return found
