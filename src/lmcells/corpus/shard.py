"""A shard: a few thousand notes, split into sections and tokens.

Which words are frequent and which headers get an id is known only when all shards are done. So a shard keeps every
word, and the tokens of each header next to those of its body.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.corpus.settings import CorpusSettings
from lmcells.files import atomic_folder, read_json
from lmcells.notes.note import Note
from lmcells.notes.section_styles import header_finder
from lmcells.notes.sections import Header, upper_name, with_opening
from lmcells.notes.tokens import Array, TokenArrays, find_tokens, slots_of, spell

SHARD_VERSION = 2  # of the files in a shard's folder
NO_HEADER = -1
_NO_HEADER = (None, "")  # header and name of text without one
_PIECE = 1 << 18  # characters tokenised at a time: arrays of this size stay in the processor's cache
_BETWEEN = "\n\n"  # the notes of a piece, so that no word is a neighbour of one of another note
_MULTIPLIER = 0x9E3779B97F4A7C15

_finder = cache(header_finder)  # once per process: reading the alias table takes longer than a shard


def _stored(name: str) -> "cached_property[npt.NDArray[Any]]":
    return cached_property(lambda shard: np.load(shard._folder / name, allow_pickle=False))


class Shard:
    """Notes as tokens, in a folder; each array is read when it is needed.

    shard.hashes    # (words,) of each distinct word
    shard.tokens    # the index of each token's word among the distinct words
    shard.segments  # (4, segments): the note, the header or NO_HEADER, the number of the header's tokens and of all

    A segment is a section of a note: its header's tokens, then its body's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def document_ids(self) -> str:
        """The ids of the notes, as JSON."""
        return (self._folder / "document_ids.json").read_text(encoding="utf-8")

    @property
    def n_documents(self) -> int:
        return int(self.values.shape[1])

    def document_metadata(self, kind: str) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Return the values of a kind of metadata, and the index of each note's among them."""
        names = self._names
        return names[kind], self.values[list(names).index(kind)]

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = read_json(self._folder / "values.json")
        return names

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """Headers as written, but in upper case, with their canonical names."""
        return [(written, name) for written, name in read_json(self._folder / "headers.json")]

    def count_headers(self) -> Counter[tuple[str, str]]:
        of_segment = self.segments[1]
        counts = np.bincount(of_segment[of_segment != NO_HEADER], minlength=len(self.headers))
        counted: Counter[tuple[str, str]] = Counter()
        for header, count in zip(self.headers, counts.tolist(), strict=True):
            counted[header] += count  # the same header may occur in several cases
        return counted

    @property
    def spellings(self) -> list[str]:
        """The distinct words, in the order of `hashes`."""
        return (self._folder / "spellings.txt").read_text(encoding="utf-8").split("\n")

    hashes = _stored("hashes.npy")
    tokens = _stored("tokens.npy")
    values = _stored("values.npy")  # (kinds of metadata, notes)
    segments = _stored("segments.npy")


def batch_notes(
    notes: Iterable[Note], *, max_characters: int = 1 << 23, max_notes: int = 20_000
) -> Iterator[list[Note]]:
    """Group notes into shards by their sizes only, whatever the number of workers."""
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


def build_shard(
    shard: tuple[Path, Sequence[Note]], *, settings: CorpusSettings, metadata_kinds: Sequence[str]
) -> None:
    """Split notes into sections and tokens, and write them to a folder, atomically."""
    folder, notes = shard
    find_headers = _finder(settings.sections, header_rules=settings.header_rules)
    found: list[list[Header]] = []
    pieces = _Pieces(stop_words=settings.stop_words)
    for note in notes:
        text, note_headers = note.text, with_opening(find_headers(note), text_length=len(note.text))
        if settings.spelled_out:
            from lmcells.notes.spelled_out import spell_out  # slow to import

            text, note_headers = spell_out(text, note_headers, note_id=note.id, share=settings.spelled_out)
        found.append(note_headers)
        pieces.add(text)
    pieces.finish()
    starts, body_starts, written, names = zip(*chain.from_iterable(found), strict=True)
    number: dict[tuple[str | None, str], int] = {_NO_HEADER: NO_HEADER}
    header_of = [number.setdefault(header, len(number) - 1) for header in zip(written, names, strict=True)]
    known_headers = list(number)[1:]
    document = np.repeat(np.arange(len(notes)), [len(headers) for headers in found])
    first_tokens = pieces.find_first_tokens(document, np.array([starts, body_starts], np.int64))
    hashes = np.concatenate([tokens.hashes for _, tokens in pieces.found])
    first, words = distinct(hashes)
    segments = [
        document,
        header_of,
        first_tokens[1] - first_tokens[0],
        np.diff(first_tokens[0], append=hashes.size),
    ]
    of_kinds: dict[str, dict[str, int]] = {kind: {} for kind in metadata_kinds}
    values = [
        [known.setdefault(note.metadata.get(kind, ""), len(known)) for note in notes]
        for kind, known in of_kinds.items()
    ]
    lists = {
        "headers": [(upper_name(header), name) for header, name in known_headers if header is not None],
        "document_ids": [note.id for note in notes],
        "values": {kind: list(known) for kind, known in of_kinds.items()},
    }
    with atomic_folder(folder) as temporary:
        np.save(temporary / "segments.npy", np.stack(segments).astype(np.int32))
        np.save(temporary / "values.npy", np.array(values, np.int32))
        np.save(temporary / "tokens.npy", words.astype(np.uint32))
        np.save(temporary / "hashes.npy", hashes[first])
        (temporary / "spellings.txt").write_text("\n".join(pieces.spellings(first)), encoding="utf-8")
        for name, value in lists.items():
            (temporary / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


class _Pieces:
    """Notes joined into larger texts for the tokenizer, and the tokens of each."""

    def __init__(self, *, stop_words: bool) -> None:
        self.found: list[tuple[str, TokenArrays]] = []
        self._stop_words = stop_words
        self._texts: list[str] = []  # of the current piece
        self._length = 0
        self._offsets: list[int] = []  # of each note, in its piece
        self._n_notes: list[int] = []  # up to the end of each piece

    def add(self, text: str) -> None:
        if self._length + len(text) > _PIECE:
            self.finish()
        self._offsets.append(self._length)
        self._texts.append(text)
        self._length += len(text) + len(_BETWEEN)

    def finish(self) -> None:
        """Tokenise the current piece, and start the next."""
        text = _BETWEEN.join(self._texts)
        self.found.append((text, find_tokens(text, stop_words=self._stop_words)))
        self._n_notes.append(len(self._offsets))
        self._texts, self._length = [], 0

    def find_first_tokens(
        self, notes: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the index of the first token at or after each position in a note; notes are in order."""
        positions = positions + np.array(self._offsets, np.int64)[notes]
        n_tokens = 0
        parts = np.split(positions, np.searchsorted(notes, self._n_notes[:-1]), axis=1)
        for part, (_, tokens) in zip(parts, self.found, strict=True):
            part[:] = n_tokens + np.searchsorted(tokens.starts, part)
            n_tokens += tokens.hashes.size
        return positions

    def spellings(self, chosen: npt.NDArray[np.int64]) -> list[str]:
        """Return the spellings of some tokens, given in order."""
        ends = np.cumsum([tokens.hashes.size for _, tokens in self.found])
        parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        spellings: list[str] = []
        for (text, tokens), end, part in zip(self.found, ends, parts, strict=True):
            local = part - (end - tokens.hashes.size)
            spellings += _spell_tokens(text, tokens.starts[local], tokens.ends[local])
        return spellings


def _spell_tokens(text: str, starts: Array, ends: Array) -> list[str]:
    """Return the `spell` of each token; nearly all are words, which are copied and lower-cased together."""
    if not text.isascii():
        return [spell(text[first:last]) for first, last in zip(starts.tolist(), ends.tolist(), strict=True)]
    characters = np.frombuffer(f"{text}\n".encode("ascii"), np.uint8)
    is_word = (characters[starts] | 32) - ord("a") < 26
    lengths = np.where(is_word, ends - starts, 0) + 1  # with a line break after each
    after = np.cumsum(lengths)
    written = characters[np.arange(lengths.sum()) + np.repeat(starts - after + lengths, lengths)]
    written[after - 1] = ord("\n")
    words: list[str] = written.tobytes().decode().lower().replace(".", "").split("\n")[:-1]
    for token in np.flatnonzero(~is_word).tolist():
        words[token] = spell(text[starts[token] : ends[token]])
    return words


def distinct(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer]]:
    """Return the first index of each distinct hash, in order, and for every hash the number of its distinct one.

    By a hash table filled with array operations, in linear time: numpy's `unique` sorts, which took half of a build's
    time. The first hash to claim a slot keeps it, and the others try another slot; a few rounds are enough.
    """
    bits = max(8, int(hashes.size).bit_length() - 2)  # words repeat: few tokens are distinct
    # In 32 bits, more of the table stays in the processor's cache.
    indices: npt.NDArray[np.integer] = np.arange(
        hashes.size, dtype=np.int32 if hashes.size < 2**31 else np.int64
    )
    slots = np.empty(1 << bits, indices.dtype)
    multiplier = _MULTIPLIER

    def claim(
        waiting: npt.NDArray[np.integer], of_waiting: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.integer]:
        slot = slots_of(of_waiting, multiplier, bits)
        slots[slot[::-1]] = waiting[::-1]  # numpy keeps the last value written to a slot: reversed, the first
        return slots.take(slot)

    first_with_same = claim(indices, hashes)
    waiting = np.flatnonzero(hashes.take(first_with_same) != hashes).astype(indices.dtype)
    while waiting.size:
        multiplier = multiplier * _MULTIPLIER % (1 << 64)
        here = hashes.take(waiting)
        first_with_same[waiting] = holder = claim(waiting, here)
        waiting = waiting.compress(hashes.take(holder) != here)
    firsts = np.flatnonzero(first_with_same == indices)
    number = np.empty_like(indices)  # used only at the firsts
    number[firsts] = indices[: firsts.size]
    return firsts, number.take(first_with_same)
