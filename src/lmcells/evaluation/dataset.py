"""A labelled short form in its context, and files of them in JSON lines.

    {"id", "text", "start", "end", "short_form", "section", "long_form", "note_id"}

`text` holds the short form at `[start, end)`; `section` is the header it stands under, or null; `long_form` is the
inventory's canonical name; `note_id` is the note that must stay out of pre-training.
"""

import hashlib
import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.files import atomic_write
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.records import mend, open_utf8

# A uniform sample of a stream that depends on what is in the stream and on the seed, not on the order.
#
# Every item gets a pseudo-random rank from its name, and the lowest ranks stay. Memory is bounded by the sample.


Item = TypeVar("Item")


def rank_of(name: str, *, seed: int | str = "") -> int:
    """Return a number of 64 bits that looks random and depends on the name and the seed alone."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


@dataclass(slots=True)
class Sample(Generic[Item]):
    """At most `size` items of those offered."""

    size: int
    seed: int
    n_offered: int = 0
    _heap: list[tuple[int, int, Item]] = field(default_factory=list)  # the highest rank first

    def offer(self, name: str, item: Item) -> None:
        """Consider an item. Its name must be its own."""
        self.n_offered += 1
        entry = (-rank_of(name, seed=self.seed), self.n_offered, item)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, _, item in self._heap)


# Which part of a split a note belongs to: decided by its id alone, so that it is the same everywhere and always.


_EXAMPLE = "Write it as dev=0.1,test=0.2."


@dataclass(frozen=True, slots=True)
class NoteSplit:
    """Named parts and their shares of the notes; what is left over belongs to none."""

    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, share in self.shares.items():
            if not re.fullmatch(r"[\w-]+", name):
                raise ConfigError(
                    f"split: {name!r} is no name. Allowed: letters, digits, '_' and '-'. {_EXAMPLE}"
                )
            if not 0.0 < share <= 1.0:
                raise ConfigError(f"split: found {name}={share}, allowed: above 0, at most 1. {_EXAMPLE}")
        if sum(self.shares.values()) > 1.0 + 1e-9:
            raise ConfigError(f"split: the shares add to {sum(self.shares.values()):g}, allowed: at most 1.")

    @classmethod
    def parse(cls, written: str) -> "NoteSplit":
        """Read "dev=0.1,test=0.2"."""
        shares: dict[str, float] = {}
        for part in written.split(","):
            name, equals, share = part.strip().partition("=")
            try:
                number = float(share)
            except ValueError:
                number = 0.0
            if not equals or name in shares or not number > 0.0:
                raise ConfigError(
                    f"split: found {part.strip()!r}, allowed: each name once, with its share. {_EXAMPLE}"
                )
            shares[name] = number
        return cls(shares)

    def part_of(self, note_id: str) -> str | None:
        """Return the part of a note, or None for one that is left over."""
        place = rank_of(note_id, seed="split") / 2**64
        for name, share in self.shares.items():
            if place < share:
                return name
            place -= share
        return None


# A labelled short form in its context, and files of them in JSON lines.
#
#     {"id", "text", "start", "end", "short_form", "section", "long_form", "note_id"}
#
# `text` holds the short form at `[start, end)`; `section` is the header it stands under, or null; `long_form` is the
# inventory's canonical name; `note_id` is the note that must stay out of pre-training.


@dataclass(frozen=True, slots=True)
class Example:
    """A short form in its context, and what it stands for."""

    id: str
    text: str = field(repr=False)  # patient data: never in a log or a traceback
    start: int
    end: int
    short_form: str
    section: str | None
    long_form: str
    note_id: str


class _NoExample(Exception):  # noqa: N818 - the reason why a row is skipped, not a failure
    pass


def read_dataset(path: Path, *, report: ReadReport) -> Iterator[Example]:
    """Stream the examples of a file. A broken row is counted with its line and reason; the rest goes on."""
    n_read, first_reason = 0, ""
    with open_utf8(path) as file:
        for line, content in enumerate(file, start=1):
            if content.isspace():
                continue
            try:
                example = parse_example(content)
            except _NoExample as reason:
                first_reason = first_reason or f"line {line}: {reason}"
                report.skip(str(reason), line, path=path)
                continue
            n_read += 1
            report.n_read += 1
            yield example
    if not n_read:
        raise FormatError(
            f"{path} holds no example ({first_reason or 'only blank lines'}). "
            "A dataset is JSON lines, made by: lmcells dataset"
        )


def write_dataset(path: Path, examples: Iterable[Example]) -> int:
    """Write examples, one a line, atomically; return how many."""
    n_written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for example in examples:
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
                n_written += 1
    except OSError as error:
        raise InputError(f"dataset {path} cannot be written: {error.strerror or error}.") from error
    return n_written


def spells(written: str, short_form: str) -> bool:
    """Whether what stands in the text is the short form, up to case, dots and a plural ending."""
    written, short_form = (
        each.casefold().replace(".", "").replace("’", "'") for each in (written, short_form)
    )
    return written in (short_form, short_form + "s", short_form + "'s")


def parse_example(content: bytes) -> Example:
    """Check one line of a dataset."""
    try:
        row = json.loads(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise _NoExample("not JSON") from None
    if not isinstance(row, dict):
        raise _NoExample("not a JSON object")
    example = Example(
        id=_name(row, "id"),
        text=_string(row, "text"),
        start=_offset(row, "start"),
        end=_offset(row, "end"),
        short_form=_string(row, "short_form"),
        section=None if _value(row, "section", nullable=True) is None else _string(row, "section") or None,
        long_form=_string(row, "long_form"),
        note_id=_name(row, "note_id"),
    )
    if not example.short_form or not example.long_form:
        raise _NoExample("empty short_form or long_form")
    if not 0 <= example.start < example.end <= len(example.text):
        raise _NoExample("offsets outside the text")
    if not spells(example.text[example.start : example.end], example.short_form):
        raise _NoExample("the offsets do not point at the short form")
    return example


def _value(row: dict[str, Any], key: str, *, nullable: bool = False) -> Any:
    if key not in row or (row[key] is None and not nullable):
        raise _NoExample(f"no {key!r}")
    return row[key]


def _string(row: dict[str, Any], key: str) -> str:
    value = _value(row, key)
    if not isinstance(value, str):
        raise _NoExample(f"{key!r} is not a string")
    return mend(value)


def _name(row: dict[str, Any], key: str) -> str:
    value = _value(row, key)
    return str(value) if type(value) is int else _string(row, key)


def _offset(row: dict[str, Any], key: str) -> int:
    value = _value(row, key)
    if type(value) is not int:
        raise _NoExample(f"{key!r} is not a whole number")
    return value
