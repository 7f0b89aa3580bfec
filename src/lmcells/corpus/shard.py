"""A shard: a few thousand notes cut into sections and tokens, before anything global is known.

Which words are frequent enough and which headers deserve an id is only known when all shards are there, so a
shard keeps every word, and the tokens of each header beside those of its body.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.files import atomic_folder, read_json
from lmcells.notes.note import Note
from lmcells.notes.section_styles import HeaderFinder
from lmcells.notes.sections import Header, upper_name, with_opening
from lmcells.notes.spelled_out import spell_out
from lmcells.notes.token_arrays import TokenArrays, find_tokens, slots_of
from lmcells.notes.tokens import spell

# Grouping equal numbers in linear time: numpy's own `unique` sorts, which was half of a build's time.


_MULTIPLIER = 0x9E3779B97F4A7C15
_SAMPLE = 1 << 15
_SAMPLE_BITS = 16  # slots for the sample's hashes: small enough for the processor's cache


def distinct(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each distinct hash stands first, in order, and for every hash which of these it is.

    Most tokens are of few words, and a sample has nearly all of these: what it knows is looked up in a table that stays
    in the cache, and only the rest is grouped at full size.
    """
    if hashes.size < 4 * _SAMPLE:
        return _group(hashes)
    first, _ = _group(hashes[:_SAMPLE])
    places = np.zeros(1 << _SAMPLE_BITS, np.int64)  # where a slot is empty, the comparison below fails
    slot_of_first = slots_of(hashes[first], _MULTIPLIER, _SAMPLE_BITS)
    places[slot_of_first[::-1]] = first[::-1]
    candidate = places[slots_of(hashes, _MULTIPLIER, _SAMPLE_BITS)]
    rest = np.flatnonzero(hashes[candidate] != hashes)
    rest_first, rest_group = _group(hashes[rest])
    in_sample = first[places[slot_of_first] == first]  # the others lost their slot, and are in the rest
    firsts = np.sort(np.concatenate([in_sample, rest[rest_first]]))
    number = np.empty(hashes.size, np.int64)  # read and written at the firsts alone
    number[firsts] = np.arange(firsts.size)
    groups = number[candidate]
    groups[rest] = number[rest[rest_first]][rest_group]
    return firsts, groups


def _group(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`distinct` by a hash table filled with array operations.

    The first to claim a slot keeps it, those with another hash try again elsewhere; a few rounds are enough.
    """
    bits = max(8, int(hashes.size).bit_length() - 2)  # words repeat: far fewer than tokens are distinct
    slots = np.empty(1 << bits, np.int64)
    first_with_same = np.empty(hashes.size, np.int64)
    waiting = np.arange(hashes.size)
    multiplier = _MULTIPLIER
    while waiting.size:
        here = hashes[waiting]
        slot = slots_of(here, multiplier, bits)
        slots[slot[::-1]] = waiting[
            ::-1
        ]  # of several values for one slot the last written stays: the first in order
        holder = slots[slot]
        same = hashes[holder] == here
        first_with_same[waiting[same]] = holder[same]
        waiting = waiting[~same]
        multiplier = multiplier * _MULTIPLIER % (1 << 64)
    is_first = first_with_same == np.arange(hashes.size)
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first_with_same]


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the order that sorts ids below 2**31, stably.

    Each id is sorted together with its place, as one number: numpy sorts numbers faster than it finds their order.
    """
    bits = int(ids.size).bit_length()
    order: npt.NDArray[np.int64] = (ids.astype(np.int64) << bits) | np.arange(ids.size)
    order.sort()
    order &= (1 << bits) - 1
    return order


# A shard: a few thousand notes cut into sections and tokens, before anything global is known.
#
# Which words are frequent enough and which headers deserve an id is only known when all shards are there, so a
# shard keeps every word, and the tokens of each header beside those of its body.


_PIECE = 1 << 17  # characters tokenised at a time: arrays of this size stay in the processor's cache
NO_HEADER = -1
_NO_HEADER = (None, "")  # written and name of the text under no header


class Shard:
    """Notes as tokens, in a folder of their own; each part is read when it is asked for.

    A segment is a section of a note: its header's tokens, then its body's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _array(self, name: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(self._folder / f"{name}.npy", allow_pickle=False)
        return array

    @cached_property
    def document_ids(self) -> list[str]:
        """The ids of the notes."""
        ids: list[str] = read_json(self._folder / "document_ids.json")
        return ids

    @cached_property
    def document_metadata(self) -> dict[str, list[str]]:
        """Each kind's values, one a document."""
        metadata: dict[str, list[str]] = read_json(self._folder / "document_metadata.json")
        return metadata

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """Headers as written, in upper case, with their canonical names."""
        return [(written, name) for written, name in read_json(self._folder / "headers.json")]

    @cached_property
    def spellings(self) -> list[str]:
        """The words, in the order of `hashes`."""
        return (self._folder / "spellings.txt").read_text(encoding="utf-8").split("\n")

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """The words' hashes."""
        return self._array("hashes")

    @cached_property
    def tokens(self) -> npt.NDArray[np.uint32]:
        """Each token's word."""
        return self._array("tokens")

    @cached_property
    def _segments(self) -> npt.NDArray[np.int32]:
        return self._array("segments")

    def _segment_row(self, row: int) -> npt.NDArray[np.int32]:
        values: npt.NDArray[np.int32] = self._segments[row]
        return values

    @property
    def segment_document(self) -> npt.NDArray[np.int32]:
        """Each segment's note."""
        return self._segment_row(0)

    @property
    def segment_header(self) -> npt.NDArray[np.int32]:
        """Each segment's header, or NO_HEADER."""
        return self._segment_row(1)

    @property
    def segment_header_tokens(self) -> npt.NDArray[np.int32]:
        """How many of a segment's tokens are its header's."""
        return self._segment_row(2)

    @property
    def segment_tokens(self) -> npt.NDArray[np.int32]:
        """How many tokens a segment has, the header's included."""
        return self._segment_row(3)


def build_shard(
    notes: Sequence[Note],
    folder: Path,
    *,
    find_headers: HeaderFinder,
    metadata_kinds: Sequence[str],
    stop_words: bool = False,
    spelled_out: float = 0.0,
) -> Shard:
    """Cut notes into sections and tokens and write them; the folder appears when it is complete."""
    found: list[list[Header]] = []
    pieces = _Pieces(stop_words=stop_words)
    for note in notes:
        text, note_headers = note.text, with_opening(find_headers(note), text_length=len(note.text))
        if spelled_out:
            text, note_headers = spell_out(text, note_headers, note_id=note.id, share=spelled_out)
        found.append(note_headers)
        pieces.add(text)
    pieces.finish()
    starts, body_starts, written, names = zip(*chain.from_iterable(found), strict=True)
    headers = list(zip(written, names, strict=True))
    known_headers = [header for header in dict.fromkeys(headers) if header != _NO_HEADER]
    number = {_NO_HEADER: NO_HEADER} | {header: index for index, header in enumerate(known_headers)}
    document = np.repeat(np.arange(len(notes)), [len(headers) for headers in found])
    first_tokens = pieces.find_first_tokens(document, np.array([starts, body_starts], np.int64))
    hashes = pieces.hashes()
    first, words = distinct(hashes)
    with atomic_folder(folder) as temporary:
        segments = [
            document,
            [number[header] for header in headers],
            first_tokens[1] - first_tokens[0],
            np.diff(first_tokens[0], append=hashes.size),
        ]
        np.save(temporary / "segments.npy", np.stack(segments).astype(np.int32))
        np.save(temporary / "tokens.npy", words.astype(np.uint32))
        np.save(temporary / "hashes.npy", hashes[first])
        (temporary / "spellings.txt").write_text("\n".join(pieces.spellings(first)), encoding="utf-8")
        lists = {
            "headers": [(upper_name(header), name) for header, name in known_headers if header is not None],
            "document_ids": [note.id for note in notes],
            "document_metadata": {
                kind: [note.metadata.get(kind, "") for note in notes] for kind in metadata_kinds
            },
        }
        for name, values in lists.items():
            (temporary / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return Shard(folder)


class _Pieces:
    """Notes joined into pieces of text for the tokenizer, and the tokens found in each."""

    def __init__(self, *, stop_words: bool) -> None:
        self._stop_words = stop_words
        self._texts: list[str] = []
        self._length = 0
        self._offsets: list[int] = []  # of each note in its piece
        self._n_notes: list[int] = []  # up to the end of each piece
        self._found: list[tuple[str, TokenArrays]] = []

    def add(self, text: str) -> None:
        """Take a note."""
        if self._length + len(text) > _PIECE:
            self.finish()
        self._offsets.append(self._length)
        self._texts.append(text)
        self._length += len(text) + 1

    def finish(self) -> None:
        """Find the tokens of the current piece, and begin the next."""
        text = "\n".join(self._texts)
        self._found.append((text, find_tokens(text, stop_words=self._stop_words)))
        self._n_notes.append(len(self._offsets))
        self._texts, self._length = [], 0

    def find_first_tokens(
        self, notes: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the number of the first token at or after each place in a note; the notes are in order."""
        places = places + np.array(self._offsets, np.int64)[notes]
        n_tokens = 0
        parts = np.split(places, np.searchsorted(notes, self._n_notes[:-1]), axis=1)
        for part, (_, found) in zip(parts, self._found, strict=True):
            part[:] = n_tokens + np.searchsorted(found.starts, part)
            n_tokens += found.hashes.size
        return places

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hashes of all tokens."""
        return np.concatenate([found.hashes for _, found in self._found])

    def spellings(self, tokens: npt.NDArray[np.int64]) -> list[str]:
        """Spell some of the tokens, given in order."""
        ends = np.cumsum([found.hashes.size for _, found in self._found])
        parts = np.split(tokens, np.searchsorted(tokens, ends[:-1]))
        spellings: list[str] = []
        for (text, found), end, chosen in zip(self._found, ends, parts, strict=True):
            local = chosen - (end - found.hashes.size)
            spans = zip(found.starts[local].tolist(), found.ends[local].tolist(), strict=True)
            # Nearly all words are plain, and quicker spelt without asking for anything else.
            spellings += [
                word.lower() if (word := text[first:last]).isascii() and word.isalpha() else spell(word)
                for first, last in spans
            ]
        return spellings


def batch_notes(
    notes: Iterable[Note], *, max_characters: int = 1 << 23, max_notes: int = 5000
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
