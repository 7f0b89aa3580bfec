"""Shared by all note readers: choosing columns, ids and sections."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lmcells.errors import ConfigError, FormatError, InputError, nearest
from lmcells.notes.note import Note, Section
from lmcells.notes.readers.opening import STDIN, mend, open_stretch, open_utf8
from lmcells.notes.readers.report import Line, ReadReport

MAX_NAMES_SHOWN = 20

UTF8_REPLACED = "invalid UTF-8 replaced"
NO_ID = "no id: file and row used"
EMPTY_NOTE = "empty note"

SUFFIXES = (
    {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
    | {".parquet": "parquet", ".pq": "parquet", ".txt": "text", ".text": "text"}
)  # fmt: skip

_COLUMN_NAME = re.compile(r"(?!\d)[\w.#-]{1,30}( [\w.#-]{1,30}){0,2}")


@dataclass(frozen=True, slots=True)
class Columns:
    """How to read files: columns (None: the format's own), encoding and delimiter."""

    text: str | None = None
    id: str | None = None
    category: str | None = None
    metadata: tuple[str, ...] = ()  # further columns to keep
    encoding: str = "utf-8"
    delimiter: str | None = None  # of a table; None: the format's own

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)
            "".encode(self.encoding)
        except (LookupError, UnicodeError):  # there is one named "undefined"
            raise ConfigError(
                f"encoding: found {self.encoding!r}, allowed: one that Python knows, such as utf-8, cp1252, utf-16."
            ) from None
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ConfigError(
                f"delimiter: found {self.delimiter!r}, allowed: one character, such as ; | or tab."
            )
        if "category" in self.metadata and self.category not in (None, "category"):
            raise InputError(
                f"Both {self.category!r} (--category-column) and 'category' (--metadata-column) would be "
                "kept as 'category'. Give one of them."
            )


@dataclass(frozen=True, slots=True)
class Layout:
    """The column names of a format, in order of preference, in any case."""

    text: tuple[str, ...] = ("text", "note_text", "note")
    id: tuple[str, ...] = ("id", "note_id", "row_id")
    category: tuple[str, ...] = ("category", "note_type")
    sections: str | None = None  # a list of {"header", "text"} instead of a text
    source: str | None = None  # the prefix of ids; None: the file's stem
    error_flag: str | None = None  # rows with a 1 were withdrawn


TABLE = Layout()
DOCUMENTS = Layout(sections="sections")
MIMIC3 = Layout(("text",), ("row_id",), ("category",), source="mimic3", error_flag="iserror")
MIMIC4 = Layout(("text",), ("note_id",), ("note_type",), source="mimic4")


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns to read of one file, as the file spells them; None if it has none."""

    text: str | None
    sections: str | None
    id: str | None
    error_flag: str | None
    metadata: tuple[tuple[str, str], ...]  # (key in Note.metadata, column)
    missing: tuple[tuple[str, str], ...]  # (column that the user named and the file lacks, flag)


def choose(columns: Columns, *, layout: Layout, found: Sequence[str]) -> Choice:
    """Match a file's columns with those the user named, or else with those the layout expects."""
    spelled = {name.lower(): name for name in reversed(found)}  # the first of those that differ only in case
    missing: list[tuple[str, str]] = []

    def expect(*names: str | None) -> str | None:
        return next((spelled[name] for name in names if name in spelled), None)

    def pick(named: str | None, flag: str, *expected: str) -> str | None:
        if named is None or named in found:
            return named or expect(*expected)
        missing.append((named, flag))
        return None

    text = pick(columns.text, "--text-column", *layout.text)
    note_id = pick(columns.id, "--id-column", *layout.id)
    kept = [("category", pick(columns.category, "--category-column", *layout.category))]
    kept += [(name, pick(name, "--metadata-column")) for name in dict.fromkeys(columns.metadata)]
    return Choice(
        text=text,
        sections=expect(layout.sections) if columns.text is None else None,
        id=note_id,
        error_flag=expect(layout.error_flag),
        metadata=tuple((key, column) for key, column in kept if column is not None),
        missing=tuple(missing),
    )


def split_suffix(path: Path) -> tuple[str, str]:
    """Split a file's name into stem and known suffix: `notes.v2.csv.gz` -> ("notes.v2", ".csv")."""
    if path == STDIN:
        return "stdin", ""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, dot, ending = name.rpartition(".")
    suffix = dot + ending.lower()
    return (stem, suffix) if stem and suffix in SUFFIXES else (name, "")


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a file's rows, from one byte (or Parquet row group) to another."""

    start: int
    end: int
    lines_before: int = 0
    rows_before: int = 0  # without the header row
    is_well_formed: bool = False  # of a table: no quote and no carriage return is out of place


@dataclass(frozen=True, slots=True)
class NoteFile:
    """A file of notes, how to read it, and how to turn its rows into notes.

    A note's id is `source/id`, the same wherever the note is read. A note without an id gets `folder:file:row`, with
    the suffix of the file, which cannot clash: all ids have a "/".
    """

    path: Path
    columns: Columns
    report: ReadReport
    source: str
    folder: Path | None = None  # that the user named, if any
    part: Part | None = None  # None: the whole file

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Open the file, or its part, as UTF-8; an empty file is refused."""
        if self.part is None:
            with open_utf8(self.path, encoding=self.columns.encoding, report=self.report) as file:
                yield file
            return
        with open_stretch(self.path, self.part.start, self.part.end) as file:
            yield file
        self.report.advance(self.part.end - self.part.start)

    def choose(self, found: Sequence[str], *, layout: Layout) -> Choice:
        """Choose the columns to read; refuses a file that lacks its text, an id of its format, or a column named."""
        choice = choose(self.columns, layout=layout, found=found)
        # Column names may be shown in the error, but not a first row that is a note instead of a header.
        named = [name for name in found if name]
        names = named[:MAX_NAMES_SHOWN] if all(map(_COLUMN_NAME.fullmatch, named)) else []
        more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
        shown = f"columns found: {', '.join(names)}{more}"
        if not names:
            shown = f"its first row ({len(found)} fields) does not look like a row of column names"
        if choice.missing:
            name, flag = choice.missing[0]
            raise FormatError(
                f"{self.path} has no column {name!r} (set by {flag}); {shown}.{nearest(name, names)}"
            )
        if choice.text is None and choice.sections is None:
            expected = " or ".join(repr(name) for name in (*layout.text[:1], layout.sections) if name)
            separator = "the separator of its fields with --delimiter, or " if len(found) == 1 else ""
            raise FormatError(
                f"{self.path} has no column {expected}; {shown}. Name {separator}the text column with --text-column."
            )
        if choice.id is None and layout.source is not None:
            raise FormatError(
                f"{self.path} has no column {layout.id[0]!r}, which every {layout.source} file has; {shown}. "
                "Name the id column with --id-column, or read it as --format csv."
            )
        return choice

    def skip(self, reason: str, line: Line | None = None) -> None:
        self.report.skip(reason, line, path=self.path)

    def warn(self, reason: str, line: Line | None = None) -> None:
        """Count something the user should know about a note that is kept."""
        self.report.warn(reason, line, path=self.path)

    def note(
        self,
        text: str,
        found_id: str | None,
        metadata: Mapping[str, str],
        *,
        row: int,
        line: Line,
        sections: tuple[Section, ...] | None = None,
    ) -> list[Note]:
        """Return the note of a row, as a list; a row without text has none, and is counted as skipped."""
        if not text or text.isspace():
            self.skip(EMPTY_NOTE, line)
            return []
        id_ = (found_id or "").strip()
        kept = {key: stripped for key, value in metadata.items() if (stripped := value.strip())}
        if not (text.isascii() and id_.isascii() and "".join(kept.values()).isascii()):
            given = text, id_, kept
            text, id_, kept = mend(text), mend(id_), {key: mend(value) for key, value in kept.items()}
            if (text, id_, kept) != given:
                self.warn(UTF8_REPLACED, line)
        if not id_:
            if found_id is not None:
                self.warn(NO_ID, line)
            place = file_id(self.path, "".join(split_suffix(self.path)), folder=self.folder)
            id_ = f"{place.replace('/', ':')}:{row}"
        elif not id_.startswith(f"{self.source}/"):  # an id may already name this source, but no other
            id_ = f"{self.source}/{id_}"
        return [Note(mend(id_), text, kept, sections)]  # the name of the file may not be UTF-8


def file_id(path: Path, name: str, *, folder: Path | None) -> str:
    """Return the path of a file under a name, from the given folder on, or from its own if given alone."""
    if path == STDIN:
        return "stdin"
    root = path.parent if folder is None else folder
    source = root.name if root.name not in ("", "..") else root.resolve().name
    return "/".join((source or "notes", *path.relative_to(root).parent.parts, name))


def join_sections(parts: Iterable[tuple[str | None, str]]) -> tuple[str, tuple[Section, ...]]:
    """Join (header, text) pairs into a text and sections that cover it exactly.

    Returns ("", ()) if no section has any text: headers alone are an empty document.
    """
    pieces: list[str] = []
    sections: list[Section] = []
    position, has_text = 0, False
    for header, text in parts:
        written = header.strip() if header else ""
        bare = written.rstrip(": \t")
        title = (written if written.endswith(":") else written + ":") + "\n" if bare else ""
        start, body_start = position, position + len(title)
        position = body_start + len(text) + 1
        pieces += (title, text, "\n")
        sections.append(Section(bare or None, " ".join(bare.upper().split()), start, body_start, position))
        has_text = has_text or not (text == "" or text.isspace())
    return ("".join(pieces), tuple(sections)) if has_text else ("", ())
