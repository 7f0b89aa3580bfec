"""What all readers of notes share: opening files, choosing columns, ids, sections, and the account of a reading."""

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from lmcells.errors import FormatError, InputError, nearest
from lmcells.notes.note import Note, Section

GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

# Longer than any note. It bounds memory where a quote is never closed or a file has no line breaks.
MAX_NOTE_CHARS = 64 * 1024 * 1024
BUFFER_BYTES = 256 * 1024
MAX_NAMES_SHOWN = 20

UTF8_REPLACED = "invalid UTF-8 replaced"
NO_ID = "no id: row number used"
EMPTY_NOTE = "empty note"

SUFFIXES = (
    {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
    | {".parquet": "parquet", ".pq": "parquet", ".txt": "text", ".text": "text"}
)  # fmt: skip

_SURROGATE = re.compile("[\ud800-\udfff]")
_COLUMN_NAME = re.compile(r"(?!\d)[\w.#-]{1,30}( [\w.#-]{1,30}){0,2}")


class EmptyFile(FormatError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file without content: an error when the user named it, skipped inside a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty. Give a file that holds at least one note.")


class BinaryFile(FormatError):  # noqa: N818
    """A file that is not text: an error when the user named it, skipped inside a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a binary file, not text. Give text in UTF-8, or name its --format.")


def mend(text: str) -> str:
    """Return `text` with U+FFFD for each byte that was not UTF-8; the same object when there is none.

    Files are decoded with `surrogateescape`, so a bad byte arrives here as a lone surrogate: decoding runs ahead of
    parsing, and only now is it known which note the byte was in. A lone "\\ud800" in JSON is treated alike.
    """
    if text.isascii():
        return text
    try:
        text.encode()  # the fastest test for surrogates
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed when its first bytes say gzip, whatever its name."""
    try:
        with ExitStack() as stack:
            file = cast(io.BufferedReader, stack.enter_context(path.open("rb", buffering=BUFFER_BYTES)))
            if file.peek(2)[:2] == GZIP_MAGIC:
                unzipped = stack.enter_context(gzip.GzipFile(fileobj=file))
                file = io.BufferedReader(unzipped, BUFFER_BYTES)
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{path} is a truncated or damaged gzip file. Copy or download it again."
        raise FormatError(message) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def open_utf8(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file that must not be empty, after its byte order mark; UTF-16 is refused."""
    with open_bytes(path) as file:
        head = file.peek(3)[:3]
        if not head:
            raise EmptyFile(path)
        if head[:2] in UTF16_BOMS:
            raise FormatError(f"{path} is UTF-16. Save it as UTF-8: iconv -f UTF-16 -t UTF-8.")
        if head == UTF8_BOM:
            file.read(len(UTF8_BOM))
        yield file


@dataclass(slots=True)
class ReadReport:
    """The account of a reading. Every row is either read, or skipped for a reason; warnings are about notes kept.

    Reasons are fixed sentences, so that they can be counted and never hold note text.
    """

    n_read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    first_seen: dict[str, str] = field(default_factory=dict)  # reason -> "notes.csv:17", file and line or row

    @property
    def n_skipped(self) -> int:
        """How many rows gave no note."""
        return self.skipped.total()

    @property
    def n_seen(self) -> int:
        """How many rows there were."""
        return self.n_read + self.n_skipped

    def skip(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count a row that gives no note."""
        self.skipped[reason] += 1
        self._remember(reason, line, path)

    def warn(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count something the user should know about a note that is kept."""
        self.warnings[reason] += 1
        self._remember(reason, line, path)

    def _remember(self, reason: str, line: int | None, path: Path | None) -> None:
        if reason not in self.first_seen:
            place = (None if path is None else path.name, None if line is None else str(line))
            self.first_seen[reason] = ":".join(filter(None, place))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        counts = {"skipped": dict(self.skipped), "warnings": dict(self.warnings)}
        return {"n_read": self.n_read, **counts, "first_seen": dict(self.first_seen)}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns the user named; None: the format's own. `metadata` are further ones to keep."""

    text: str | None = None
    id: str | None = None
    category: str | None = None
    metadata: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "category" in self.metadata and self.category not in (None, "category"):
            raise InputError(
                f"Both {self.category!r} (--category-column) and 'category' (--metadata-column) would be "
                "kept as 'category'. Give one of them."
            )


@dataclass(frozen=True, slots=True)
class Layout:
    """What a format calls its columns, in order of preference, in any case."""

    text: tuple[str, ...] = ("text", "note_text", "note")
    id: tuple[str, ...] = ("id", "note_id", "row_id")
    category: tuple[str, ...] = ("category", "note_type")
    sections: str | None = None  # a list of {"header", "text"} in place of a text
    source: str | None = None  # ids begin with it; None: with the file's stem
    error_flag: str | None = None  # rows where it is 1 were withdrawn


TABLE = Layout()
DOCUMENTS = Layout(sections="sections")
MIMIC3 = Layout(("text",), ("row_id",), ("category",), source="mimic3", error_flag="iserror")
MIMIC4 = Layout(("text",), ("note_id",), ("note_type",), source="mimic4")


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns of one file that will be read, as the file spells them; None where it has none."""

    text: str | None
    sections: str | None
    id: str | None
    error_flag: str | None
    metadata: tuple[tuple[str, str], ...]  # (key in Note.metadata, column)
    missing: tuple[tuple[str, str], ...]  # (column the user named, flag) that the file does not have


def choose(columns: Columns, *, layout: Layout, found: Sequence[str]) -> Choice:
    """Match the columns found with those the user named, or else with those the layout expects."""
    spelled = {name.lower(): name for name in reversed(found)}  # of two that differ in case, the first
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


def require(choice: Choice, *, layout: Layout, found: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks a column the user named, its text, or the id its format promises."""
    # Names of columns may be shown; if the first row is a note and not a header, it must not be.
    named = [name for name in found if name]
    names = named[:MAX_NAMES_SHOWN] if all(map(_COLUMN_NAME.fullmatch, named)) else []
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    shown = f"columns found: {', '.join(names)}{more}"
    if not names:
        shown = f"its first row ({len(found)} fields) does not look like a row of column names"
    if choice.missing:
        name, flag = choice.missing[0]
        raise FormatError(f"{path} has no column {name!r} (set by {flag}); {shown}.{nearest(name, names)}")
    if choice.text is None and choice.sections is None:
        expected = " or ".join(repr(name) for name in (*layout.text[:1], layout.sections) if name)
        raise FormatError(
            f"{path} has no column {expected}; {shown}. Name the column of the text with --text-column."
        )
    if choice.id is None and layout.source is not None:
        raise FormatError(
            f"{path} has no column {layout.id[0]!r}, which {layout.source} promises; {shown}. "
            "Name the column of the ids with --id-column, or read it as --format csv."
        )


def split_suffix(path: Path) -> tuple[str, str]:
    """Split a file's name into stem and known suffix: `notes.v2.csv.gz` -> ("notes.v2", ".csv")."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, dot, ending = name.rpartition(".")
    suffix = dot + ending.lower()
    return (stem, suffix) if stem and suffix in SUFFIXES else (name, "")


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes notes of the rows of one file. A note's id is `source/id`: the same wherever the note is read."""

    path: Path
    report: ReadReport
    source: str

    def note(
        self,
        text: str,
        found_id: str | None,
        metadata: Mapping[str, str],
        *,
        row: int,
        line: int,
        sections: tuple[Section, ...] | None = None,
    ) -> Note | None:
        """Return the note of a row, or count the row as skipped when it has no text."""
        if not text or text.isspace():
            self.report.skip(EMPTY_NOTE, line, path=self.path)
            return None
        given = [text, found_id or "", *metadata.values()]
        mended = [mend(value) for value in given]
        if mended != given:
            self.report.warn(UTF8_REPLACED, line, path=self.path)
        text, id_, *values = mended
        if found_id is None:
            id_ = f"{self.source}/{row}"
        elif not (id_ := id_.strip()):  # an empty cell must not take the number that is another row's id
            self.report.warn(NO_ID, line, path=self.path)
            id_ = f"{self.source}/row-{row}"
        elif "/" not in id_:
            id_ = f"{self.source}/{id_}"
        kept = {key: value.strip() for key, value in zip(metadata, values, strict=True) if value.strip()}
        return Note(id_, text, kept, sections)


def text_file_id(path: Path, *, folder: Path | None) -> str:
    """Id of a text file: its path, from the name of the given folder on, or of its own when given alone."""
    root = path.parent if folder is None else folder
    source = root.name if root.name not in ("", "..") else root.resolve().name
    return "/".join((source or "notes", *path.relative_to(root).parent.parts, split_suffix(path)[0]))


def join_sections(parts: Iterable[tuple[str | None, str]]) -> tuple[str, tuple[Section, ...]]:
    """Write (header, text) pairs one under another; the sections cover the result exactly.

    Returns ("", ()) when no section has any text: headers alone are an empty document.
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
