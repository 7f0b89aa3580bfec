"""What a reader reports: notes read, rows skipped and why, and repeated ids."""

import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from lmcells.notes.tokens import hash_words

REPEATED_ID = "id of an earlier note"
Line = int | Callable[[], int]
"""The number of a line, or a function that counts the lines up to it."""


def line_number(line: Line | None) -> int | None:
    return line() if callable(line) else line


@dataclass(slots=True)
class ReadReport:
    """Counts of a reader. Every row is either read, or skipped for a reason; warnings are about notes that were read.

    Reasons are fixed phrases, so that they can be counted and never contain note text.
    """

    n_read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    first_seen: dict[str, str] = field(default_factory=dict)  # reason -> "notes.csv:17", file and line or row
    ids: "_SeenIds" = field(default_factory=lambda: _SeenIds(), repr=False)  # finds repeated ids
    _bytes_before: int = field(default=0, repr=False)  # of files read to their end
    _file: io.BufferedReader | None = field(default=None, repr=False)

    @property
    def n_skipped(self) -> int:
        """The number of rows without a note."""
        return self.skipped.total()

    @property
    def n_seen(self) -> int:
        return self.n_read + self.n_skipped

    @property
    def n_bytes(self) -> int:
        """The number of bytes of the files on disk that have been read."""
        return self._bytes_before + (0 if self._file is None or self._file.closed else self._file.tell())

    @contextmanager
    def reading(self, file: io.BufferedReader) -> Iterator[None]:
        self._file, size = file, os.fstat(file.fileno()).st_size
        try:
            yield
        finally:
            self._file = None
            self.advance(size)

    def advance(self, n_bytes: int) -> None:
        """Count the bytes of a file that was read to its end."""
        self._bytes_before += n_bytes

    @classmethod
    def of_part(cls) -> Self:
        """Return an empty report of a part, to be merged into another: it keeps the ids of its notes."""
        return cls(ids=_SeenIds(block=sys.maxsize))

    def split_off(self) -> Self:
        """Return the counts so far as the report of a part, and start over."""
        part, empty = self.of_part(), self.of_part()
        for each in fields(self):
            if each.name != "_file":
                setattr(part, each.name, getattr(self, each.name))
                setattr(self, each.name, getattr(empty, each.name))
        return part

    def merge(self, later: "ReadReport") -> None:
        """Add the report of a part that comes after everything counted here."""
        self.n_read += later.n_read
        self.skipped += later.skipped
        self.warnings += later.warnings
        self.first_seen = {**self.first_seen, **later.first_seen, **self.first_seen}
        self.ids.merge(later.ids)
        self.advance(later.n_bytes)

    def skip(self, reason: str, line: Line | None = None, *, path: Path | None = None) -> None:
        self.skipped[reason] += 1
        self._remember(reason, line, path)

    def warn(self, reason: str, line: Line | None = None, *, path: Path | None = None) -> None:
        """Count a warning about a note that is kept."""
        self.warnings[reason] += 1
        self._remember(reason, line, path)

    def _remember(self, reason: str, line: Line | None, path: Path | None) -> None:
        if reason not in self.first_seen:
            number = line_number(line)
            place = (None if path is None else path.name, None if number is None else str(number))
            self.first_seen[reason] = ":".join(filter(None, place))

    def to_dict(self) -> dict[str, Any]:
        warnings, first_seen = dict(self.warnings), dict(self.first_seen)
        self.ids.close_block()
        if self.ids.n_repeated:
            warnings[REPEATED_ID], first_seen[REPEATED_ID] = self.ids.n_repeated, self.ids.first_repeated
        return {
            "n_read": self.n_read,
            "skipped": dict(self.skipped),
            "warnings": warnings,
            "first_seen": first_seen,
        }


class _SeenIds:
    """Finds repeated ids, in eight bytes per note: ids are remembered by hash."""

    def __init__(self, *, block: int = 1 << 16) -> None:
        self._n_per_block = block
        self._sorted = np.empty(0, np.uint64)  # of all blocks so far
        self._block: list[str] = []
        self.n_repeated = 0  # notes with the id of an earlier note, in closed blocks
        self.first_repeated = ""

    def add(self, note_id: str) -> None:
        self._block.append(note_id)
        if len(self._block) == self._n_per_block:
            self.close_block()

    def merge(self, later: "_SeenIds") -> None:
        """Add the ids of later notes, which are all in one open block."""
        self._block += later._block
        if len(self._block) >= self._n_per_block:
            self.close_block()

    def close_block(self) -> None:
        """Compare the ids of the current block with each other and with all earlier ones."""
        hashes = hash_words(self._block)
        repeated = np.ones(hashes.size, bool)
        repeated[np.unique(hashes, return_index=True)[1]] = False
        at = np.searchsorted(self._sorted, hashes)
        inside = at < self._sorted.size
        repeated[inside] |= self._sorted[at[inside]] == hashes[inside]
        if repeated.any():
            self.n_repeated += int(repeated.sum())
            self.first_repeated = self.first_repeated or self._block[int(repeated.argmax())]
        self._sorted = np.sort(np.concatenate([self._sorted, hashes[~repeated]]), kind="stable")
        self._block = []
