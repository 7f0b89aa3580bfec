"""Corpora that tests build from notes of their own, and a reference for the windows of their words."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.corpus import RADIUS, Corpus, CorpusSettings
from lmcells.corpus.build import build_corpus
from lmcells.notes.readers import Columns
from note_files import write_jsonl


def corpus_of(
    folder: Path,
    notes: Iterable[str | dict[str, Any]],
    *,
    workers: int = 1,
    exclude_ids: Path | None = None,
    metadata_columns: tuple[str, ...] = (),
    **settings: Any,
) -> Corpus:
    """Build a corpus from texts or JSON documents; every word and header counts unless said otherwise."""
    rows = [{"id": f"t/{i}", "text": note} if isinstance(note, str) else note for i, note in enumerate(notes)]
    folder.mkdir(parents=True, exist_ok=True)
    corpus = build_corpus(
        write_jsonl(folder / "t.jsonl", rows),
        output=folder / "corpus",
        settings=CorpusSettings(**{"min_count": 0, "min_header_count": 1, **settings}),
        columns=Columns(metadata=metadata_columns),
        exclude_ids=exclude_ids,
        workers=workers,
        overwrite=True,
    )
    return Corpus.open(corpus.folder, verify=True)


def segments(corpus: Corpus, kind: str = "section") -> list[tuple[str, list[str]]]:
    """Return each segment's metadata and words."""
    names, ids = corpus.metadata_names(kind), corpus.segment_metadata(kind)
    found: list[tuple[str, list[str]]] = [(names[index], []) for index in ids]
    for token, segment in zip(corpus.tokens.tolist(), corpus.token_segment.tolist(), strict=True):
        found[segment][1].append(corpus.words[token])
    return found


class Windows(NamedTuple):
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
    """Gather up to `radius` words on each side of the tokens at `centers`, never beyond their segment."""
    context = np.zeros((len(centers), 2 * radius), tokens.dtype)
    mask = np.zeros(context.shape, np.bool_)
    for row, center in enumerate(np.asarray(centers).tolist()):
        around = [place for place in range(center - radius, center + radius + 1) if place != center]
        for column, place in enumerate(around):
            if 0 <= place < tokens.size and token_segment[place] == token_segment[center]:
                context[row, column], mask[row, column] = tokens[place], True
    return Windows(context, mask)
