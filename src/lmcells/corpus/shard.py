"""A shard: a few thousand notes cut into sections and tokens, before anything global is known.

Which words are frequent enough and which headers deserve an id is only known when all shards are there, so a
shard keeps every word, and the tokens of each header beside those of its body.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from lmcells.corpus.grouping import distinct
from lmcells.files import atomic_write
from lmcells.notes.bulk_tokens import TokenArrays, find_tokens
from lmcells.notes.note import Note, Section
from lmcells.notes.sections import upper_name
from lmcells.notes.tokens import spell

_PIECE = 1 << 16  # characters tokenised at a time: arrays of this size stay in the processor's cache
NO_HEADER = -1


@dataclass(frozen=True, slots=True)
class Shard:
    """Notes as tokens. A segment is a section of a note: its header's tokens, then its body's."""

    document_ids: list[str]
    document_metadata: dict[str, list[str]]  # kind -> one value a document
    headers: list[tuple[str, str]]  # (as written in upper case, canonical name)
    spellings: list[str]  # of the words, in the order of `hashes`
    hashes: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.uint32]  # index of the word
    segment_document: npt.NDArray[np.int32]
    segment_header: npt.NDArray[np.int32]  # index into `headers`, or NO_HEADER
    segment_header_tokens: npt.NDArray[np.int32]
    segment_tokens: npt.NDArray[np.int32]  # the header's included

    def save(self, path: Path) -> None:
        """Write the shard, atomically."""
        lists = [self.document_ids, self.document_metadata, self.headers, self.spellings]
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, lists=np.frombuffer(json.dumps(lists).encode(), np.uint8), **arrays)


_ARRAYS = (
    "hashes",
    "tokens",
    "segment_document",
    "segment_header",
    "segment_header_tokens",
    "segment_tokens",
)


def load_shard(path: Path) -> Shard:
    """Read a shard back; numpy checks each array against its checksum."""
    with np.load(path, allow_pickle=False) as file:
        document_ids, document_metadata, headers, spellings = json.loads(file["lists"].tobytes())
        arrays = {name: file[name] for name in _ARRAYS}
    return Shard(document_ids, document_metadata, [(key, name) for key, name in headers], spellings, **arrays)


def is_whole(path: Path) -> bool:
    """Whether a shard was written to its end and can be read."""
    try:
        load_shard(path)
    except (OSError, ValueError, KeyError, BadZipFile):
        return False
    return True


def build_shard(
    notes: Sequence[Note],
    *,
    find_sections: Callable[[Note], tuple[Section, ...]],
    metadata_kinds: Sequence[str],
) -> Shard:
    """Cut notes into sections and tokens."""
    headers: dict[tuple[str | None, str], int] = {(None, ""): NO_HEADER}
    segment_document: list[int] = []
    segment_header: list[int] = []
    pieces = _Pieces()
    for document, note in enumerate(notes):
        sections = find_sections(note)
        pieces.add(note.text, sections)
        segment_document += [document] * len(sections)
        segment_header += [headers.setdefault((header, name), len(headers) - 1) for header, name, *_ in sections]
    pieces.finish()
    tokens = pieces.hashes()
    starts, body_starts = pieces.first_tokens()
    first, inverse = distinct(tokens)
    return Shard(
        document_ids=[note.id for note in notes],
        document_metadata={kind: [note.metadata.get(kind, "") for note in notes] for kind in metadata_kinds},
        headers=[(upper_name(header), name) for header, name in headers if header is not None],
        spellings=pieces.spellings(first),
        hashes=tokens[first],
        tokens=inverse.astype(np.uint32),
        segment_document=np.array(segment_document, np.int32),
        segment_header=np.array(segment_header, np.int32),
        segment_header_tokens=(body_starts - starts).astype(np.int32),
        segment_tokens=np.diff(starts, append=tokens.size).astype(np.int32),
    )


class _Pieces:
    """Notes joined into pieces of text for the tokenizer, and where sections begin among the tokens found."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._bounds: list[tuple[int, int]] = []
        self._finished: list[tuple[str, TokenArrays]] = []
        self._token_bounds = [np.zeros((0, 2), np.int64)]
        self._n_tokens = 0

    def add(self, text: str, sections: Sequence[Section]) -> None:
        """Take a note and its sections."""
        if self._length + len(text) > _PIECE:
            self.finish()
        offset = self._length
        self._bounds += [(offset + start, offset + body_start) for _, _, start, body_start, _ in sections]
        self._texts.append(text)
        self._length += len(text) + 1

    def finish(self) -> None:
        """Find the tokens of the current piece, and begin the next."""
        text = "\n".join(self._texts)
        found = find_tokens(text)
        bounds = np.array(self._bounds, np.int64).reshape(-1, 2)
        self._token_bounds.append(self._n_tokens + np.searchsorted(found.starts, bounds))
        self._finished.append((text, found))
        self._n_tokens += found.hashes.size
        self._texts, self._length, self._bounds = [], 0, []

    def first_tokens(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first token of each section, and of its body."""
        bounds = np.concatenate(self._token_bounds)
        return bounds[:, 0], bounds[:, 1]

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hashes of all tokens."""
        return np.concatenate([found.hashes for _, found in self._finished])

    def spellings(self, tokens: npt.NDArray[np.int64]) -> list[str]:
        """Spell some of the tokens, given in order."""
        ends = np.cumsum([found.hashes.size for _, found in self._finished])
        parts = np.split(tokens, np.searchsorted(tokens, ends[:-1]))
        spellings: list[str] = []
        for (text, found), end, chosen in zip(self._finished, ends, parts, strict=True):
            local = chosen - (end - found.hashes.size)
            spans = zip(found.starts[local].tolist(), found.ends[local].tolist(), strict=True)
            spellings += [spell(text[first:last]) for first, last in spans]
        return spellings


def batch_notes(
    notes: Iterable[Note], *, max_characters: int = 1 << 22, max_notes: int = 5000
) -> Iterable[list[Note]]:
    """Group notes into shards by their sizes alone, so that the number of workers never matters."""
    batch: list[Note] = []
    characters = 0
    for note in notes:
        if batch and (characters + len(note.text) > max_characters or len(batch) == max_notes):
            yield batch
            batch, characters = [], 0
        batch.append(note)
        characters += len(note.text)
    if batch:
        yield batch
