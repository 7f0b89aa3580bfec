"""Datasets of labelled short forms: reading and writing them, splits of notes, and maps of foreign section headers.

A dataset is JSON lines, each with these fields:

    {"id", "text", "start", "end", "short_form", "section", "long_form", "note_id"}

`text` has the short form at `[start, end)`; `section` is the header above it, or null; `long_form` is the inventory's
canonical name; `note_id` is the note to keep out of pre-training.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.expansion.windows import Mention
from lmcells.files import atomic_write, explain_unwritable
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import mend, open_utf8
from lmcells.notes.sections import header_key


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

    @property
    def mention(self) -> Mention:
        """The short form as rankers read it, without its label."""
        return Mention(self.text, self.start, self.end, self.short_form, self.section)


class _NoExample(Exception):  # noqa: N818 - the reason why a row is skipped
    pass


def read_dataset(path: Path, *, report: ReadReport) -> Iterator[Example]:
    """Stream the examples of a file; broken rows are skipped and counted with their line and reason."""
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
        what = f"{path} has no examples ({first_reason or 'only blank lines'})"
        raise FormatError(f"{what}. Make a dataset with lmcells dataset, or as docs/labels.md describes.")


def write_dataset(path: Path, examples: Iterable[Example]) -> None:
    """Write examples atomically, one per line."""
    with explain_unwritable(f"dataset {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for example in examples:
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")


_TYPES: dict[str, tuple[type, ...]] = dict.fromkeys(Example.__dataclass_fields__, (str,))
_TYPES |= {"id": (str, int), "note_id": (str, int), "start": (int,), "end": (int,)}


def parse_example(content: bytes) -> Example:
    try:
        row = json.loads(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise _NoExample("not JSON") from None
    if not isinstance(row, dict):
        raise _NoExample("not a JSON object")
    values: dict[str, Any] = {}
    for key, types in _TYPES.items():
        value = row.get(key)
        if value is None and not (key == "section" and key in row):
            raise _NoExample(f"no {key!r}")
        if value is not None and type(value) not in types:  # not isinstance: True is an int
            raise _NoExample(f"{key!r} is not a {'string' if str in types else 'whole number'}")
        values[key] = mend(value) if isinstance(value, str) else value
    ids = {key: str(values[key]) for key in ("id", "note_id")}
    example = Example(**values | ids | {"section": values["section"] or None})
    if not example.short_form or not example.long_form:
        raise _NoExample("empty short_form or long_form")
    if not 0 <= example.start < example.end <= len(example.text):
        raise _NoExample("offsets outside the text")
    if not spells(example.text[example.start : example.end], example.short_form):
        raise _NoExample("the offsets do not point at the short form")
    return example


def spells(written: str, short_form: str) -> bool:
    """Whether a text is the short form, ignoring case, dots and a plural ending."""
    written, short_form = (
        each.casefold().replace(".", "").replace("’", "'") for each in (written, short_form)
    )
    return written in (short_form, short_form + "s", short_form + "'s")


def rank_of(name: str, *, seed: int | str = "") -> int:
    """Return a pseudo-random 64-bit number that depends only on the name and the seed."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


_SPLIT = "Write it as dev=0.1,test=0.2."


@dataclass(frozen=True, slots=True)
class NoteSplit:
    """Named parts of the notes and their shares. The part of a note depends only on its id."""

    shares: Mapping[str, float]  # notes beyond their sum are in no part

    def __post_init__(self) -> None:
        for name, share in self.shares.items():
            if not re.fullmatch(r"[\w-]+", name):
                allowed = "letters, digits, '_' and '-'"
                raise ConfigError(f"split: found the name {name!r}, allowed: {allowed}. {_SPLIT}")
            if not 0.0 < share <= 1.0:
                raise ConfigError(f"split: found {name}={share}, allowed: above 0, at most 1. {_SPLIT}")
        if (total := sum(self.shares.values())) > 1.0 + 1e-9:
            raise ConfigError(f"split: the shares add to {total:g}, allowed: at most 1.")

    @classmethod
    def parse(cls, written: str) -> "NoteSplit":
        """Read "dev=0.1,test=0.2"."""
        parts = [part.partition("=") for part in written.split(",")]
        try:
            shares = {name.strip(): float(share) for name, _, share in parts}
        except ValueError:
            shares = {}
        if len(shares) < len(parts):
            raise ConfigError(f"split: found {written!r}, allowed: each name once, with its share. {_SPLIT}")
        return cls(shares)

    def part_of(self, note_id: str) -> str | None:
        """Return the part of a note, or None."""
        position = rank_of(note_id, seed="split") / 2**64
        for name, share in self.shares.items():
            if position < share:
                return name
            position -= share
        return None


SectionMap = Mapping[str, str | None]  # a foreign header, as `header_key` -> a known one, or none


def section_map_of(targets: Mapping[str, str | None]) -> SectionMap:
    """Return a map whose keys are the headers without case and punctuation."""
    return {header_key(header): target for header, target in targets.items()}


def map_section(section: str | None, targets: SectionMap) -> tuple[str | None, str]:
    """Return the section that a header is mapped to, and how; a header that is not in the map is kept."""
    if section is None or not section.strip():
        return None, "no section"
    key = header_key(section)
    if key not in targets:
        return section, "as written"
    return targets[key], "mapped" if targets[key] else "mapped to none"


def load_section_map(path: Path) -> SectionMap:
    """Read a manual map: CSV of two columns (foreign, known) under a header line, or a JSON object.

    An empty cell or null means that a header has no counterpart. Case and punctuation of headers are ignored.
    """
    section_map: dict[str, str | None] = {}
    with reading(path, "section map") as text:
        if path.suffix.lower() == ".json":
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict) or not all(
                isinstance(each, str | None) for each in value.values()
            ):
                expected = '{"foreign header": "known header"}'
                raise FormatError(f"section map {path}: expected a JSON object, {expected}.")
            return section_map_of({header: target or None for header, target in value.items()})
        for row in (rows := csv.reader(io.StringIO(text, newline=""))):
            if rows.line_num > 1 and len(row) == 1:
                needed = "two, foreign and known header"
                raise FormatError(f"section map {path}, line {rows.line_num}: 1 column. Needed: {needed}.")
            if rows.line_num > 1 and row:
                section_map[row[0]] = row[1].strip() or None
    if not section_map:
        raise FormatError(f"section map {path} is empty. Give a header line and two columns.")
    return section_map_of(section_map)


@contextmanager
def reading(path: Path, what: str) -> Iterator[str]:
    """Yield the text of a small table; refuses an unreadable one with a one-line error."""
    try:
        yield path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{what} {path}: not CSV in UTF-8. Save it as such.") from error
