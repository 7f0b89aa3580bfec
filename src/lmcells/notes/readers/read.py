"""Reading the notes of a file, or of the files of a folder, in any format."""

import codecs
import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType

from lmcells.errors import FormatError, InputError, MissingExtra, nearest
from lmcells.notes.note import Note
from lmcells.notes.readers import opening, records
from lmcells.notes.readers.fhir import is_fhir, read_fhir
from lmcells.notes.readers.json_lines import cut_json_lines, read_json_lines
from lmcells.notes.readers.opening import BinaryFile, EmptyFile
from lmcells.notes.readers.records import Columns, NoteFile, Part
from lmcells.notes.readers.report import ReadReport
from lmcells.notes.readers.tables import cut_table, read_table

FORMATS = ("auto", "mimic3", "mimic4", "csv", "tsv", "jsonl", "fhir", "parquet", "text")
TABLES = {
    "mimic3": (",", records.MIMIC3),
    "mimic4": (",", records.MIMIC4),
    "csv": (",", records.TABLE),
    "tsv": ("\t", records.TABLE),
}
MIMIC3_COLUMNS = {"row_id", "subject_id", "hadm_id", "category", "iserror", "text"}
MIMIC4_COLUMNS = {"note_id", "subject_id", "note_type", "text"}
PACKED = {
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
}
_MAX_FILES = 5000  # of one group
_HEAD = 64 * 1024  # bytes that show the format
_SAMPLE = 8192  # bytes that show whether a file is binary
_PRINTABLE = bytes({*b"\t\n\v\f\r\b\x1b", *range(32, 256)})


def read_notes(
    path: Path,
    *,
    format: str = "auto",  # noqa: A002 - the command line's word
    columns: Columns = Columns(),  # noqa: B008 - immutable
    report: ReadReport,
) -> Iterator[Note]:
    """Stream the notes of a file, or of the files of a folder in sorted order.

    A wrong format name or path is refused at once, a damaged file when the stream reaches the damage.
    """
    listed = _list_files(path, format)
    return (
        note for file in listed for note in read_listed(file, format=format, columns=columns, report=report)
    )


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file to read or ignore, and the folder that the user named, if any."""

    path: Path
    folder: Path | None = None
    is_wanted: bool = True  # by its suffix
    part: Part | None = None  # None: the whole file


def cut_notes(
    paths: Sequence[Path],
    *,
    format: str,  # noqa: A002 - the command line's word
    columns: Columns,
) -> Iterator[tuple[ListedFile, ...]]:
    """Group the files that `read_notes` reads, in order, so that the groups can be read in parallel.

    A large file is cut into parts if its format allows it; small files share a group. The groups depend only on the
    files.
    """
    group: list[ListedFile] = []
    n_bytes = 0
    for listed in chain.from_iterable([_list_files(path, format) for path in paths]):
        path, is_stream = listed.path, listed.path == opening.STDIN
        size = path.stat().st_size if listed.is_wanted and not is_stream and path.exists() else 0
        is_large = is_stream or size > opening.PART_BYTES
        if group and (is_large or n_bytes + size > opening.PART_BYTES or len(group) == _MAX_FILES):
            yield tuple(group)
            group, n_bytes = [], 0
        if is_large:
            parts = iter([None]) if is_stream else _cut_file(path, format, columns)
            yield from ((replace(listed, part=part),) for part in parts)
        else:
            group.append(listed)
            n_bytes += size
    if group:
        yield tuple(group)


def _cut_file(path: Path, file_format: str, columns: Columns) -> Iterator[Part | None]:
    """Cut a large file into parts; None is the whole file, if it cannot be cut or read."""
    try:
        with path.open("rb") as file:
            head = file.read(len(opening.PARQUET_MAGIC))
        file_format, delimiter = _format_of(path, file_format, columns)
    except (OSError, InputError):
        return iter([None])
    is_plain = head[:2] not in (opening.GZIP_MAGIC, *opening.UTF16_BOMS) and columns.encoding == "utf-8"
    if file_format in TABLES and is_plain and delimiter.isascii():
        return cut_table(path, delimiter=delimiter)
    if file_format == "jsonl" and is_plain:
        return cut_json_lines(path, columns)
    if file_format == "parquet" and head == opening.PARQUET_MAGIC:
        parts: Iterator[Part | None] = _parquet().cut_parquet(path)
        return parts
    return iter([None])


def _list_files(path: Path, file_format: str) -> Iterator[ListedFile]:
    """List a file, or those of a folder, which are wanted by their suffix: a known one, or the named format's."""
    if file_format not in FORMATS:
        raise FormatError(
            f"{file_format!r} is not a format of notes. Allowed: {', '.join(FORMATS)}.{nearest(file_format, FORMATS)}"
        )
    if path != opening.STDIN and not path.exists():
        raise InputError(f"{path} does not exist. Give a file of notes or a folder of them.")
    if path.is_fifo():  # its first bytes, which show the format, could not be read again
        raise InputError(
            f"{path} is a pipe. Give - and pipe the notes into standard input, or save them to a file."
        )
    return _list_folder(path, file_format) if path.is_dir() else iter([ListedFile(path)])


def _list_folder(folder: Path, file_format: str) -> Iterator[ListedFile]:
    kind = {"mimic3": "csv", "mimic4": "csv", "fhir": "jsonl"}.get(file_format, file_format)
    suffixes = sorted(suffix for suffix, of_kind in records.SUFFIXES.items() if kind in ("auto", of_kind))
    n_files = 0
    for path in _files_in(folder):
        is_wanted = records.split_suffix(path)[1] in suffixes
        n_files += is_wanted
        yield ListedFile(path, folder, is_wanted)
    if n_files == 0:
        raise FormatError(
            f"{folder} has no files of notes. Supported suffixes: {', '.join(suffixes)}, plain or .gz."
        )


def read_listed(
    listed: ListedFile,
    *,
    format: str,  # noqa: A002 - the command line's word
    columns: Columns,
    report: ReadReport,
) -> Iterator[Note]:
    """Stream the notes of a file; inside a folder, ignored, empty and binary files are counted."""
    if not listed.is_wanted:
        report.warn("file of another type ignored", path=listed.path)
        return
    try:
        for note in _read_file(listed, format, columns, report):
            report.n_read += 1
            report.ids.add(note.id)
            yield note
    except (EmptyFile, BinaryFile) as error:
        if listed.folder is None:
            raise
        is_text = records.SUFFIXES[records.split_suffix(listed.path)[1]] == "text"
        empty = records.EMPTY_NOTE if is_text else "empty file"
        report.skip("binary file" if isinstance(error, BinaryFile) else empty, path=listed.path)


def _read_file(listed: ListedFile, file_format: str, columns: Columns, report: ReadReport) -> Iterator[Note]:
    path = listed.path
    file_format, delimiter = _format_of(path, file_format, columns)
    layout = TABLES[file_format][1] if file_format in TABLES else records.DOCUMENTS
    source = layout.source or records.split_suffix(path)[0]
    rows = NoteFile(path, columns, report, source, listed.folder, listed.part)
    if file_format in _READERS:
        return _READERS[file_format](rows)
    if file_format == "parquet":
        if path == opening.STDIN:
            raise FormatError("Parquet cannot be read from standard input. Give the file name.")
        notes: Iterator[Note] = _parquet().read_parquet(rows)
        return notes
    return read_table(rows, delimiter=delimiter, layout=layout)


def _format_of(path: Path, file_format: str, columns: Columns) -> tuple[str, str]:
    """Return the format of a file, and the delimiter of a table."""
    if file_format == "auto":
        file_format = detect_format(path, encoding=columns.encoding)
        if columns.delimiter is not None and file_format == "text":
            file_format = "csv"
    return file_format, columns.delimiter or (TABLES[file_format][0] if file_format in TABLES else "")


def _parquet() -> ModuleType:
    try:
        return import_module("lmcells.notes.readers.parquet")
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose="Reading Parquet files") from None


def _files_in(folder: Path) -> Iterator[Path]:
    """Walk a folder in sorted order, without hidden files and folders; one listing is in memory at a time."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}.") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = folder / entry.name
        if entry.is_dir():
            leads_back = entry.is_symlink() and folder.resolve().is_relative_to(path.resolve())
            yield from () if leads_back else _files_in(path)
        elif entry.is_file() or not path.exists():  # a broken link is an error, not a lost note
            yield path


def detect_format(path: Path, *, encoding: str = "utf-8") -> str:
    """Return the format of a file, by its name or, if that leaves it open, by its first bytes."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; each of its files has its own format.")
    named = records.SUFFIXES.get(records.split_suffix(path)[1])
    if named not in (None, "csv", "jsonl"):
        return str(named)
    with opening.open_bytes(path, encoding=encoding) as file:
        head = file.peek(_HEAD)[:_HEAD]
    if named == "csv":
        return _by_header(head) or named
    if named == "jsonl":
        return "fhir" if is_fhir(head) else named
    return _by_content(head, path)


def _by_content(head: bytes, path: Path) -> str:
    if not head:
        raise EmptyFile(path)
    for magic, kind in PACKED.items():
        if head.startswith(magic):
            raise FormatError(f"{path} is a {kind} file. Unpack it, or compress it with gzip instead.")
    if head.startswith(opening.PARQUET_MAGIC):
        return "parquet"
    if head[:2] in opening.UTF16_BOMS:
        return "text"
    if is_binary(head):
        raise BinaryFile(path)
    first = head.removeprefix(opening.UTF8_BOM).lstrip()[:1]
    if first in (b"{", b"[") and is_fhir(head):
        return "fhir"
    if first == b"{":
        return "jsonl"
    return _by_header(head) or "text"


def _by_header(head: bytes) -> str | None:
    """Recognise a table by its column names; None if the first line has none."""
    lines = head.removeprefix(opening.UTF8_BOM).lstrip().splitlines()
    line = lines[0].decode(errors="replace") if lines else ""
    for delimiter, table in ((",", "csv"), ("\t", "tsv")):
        try:
            names = {name.strip().lower() for name in next(csv.reader([line], delimiter=delimiter), [])}
        except csv.Error:
            continue
        if delimiter == "," and names >= MIMIC3_COLUMNS:
            return "mimic3"
        if delimiter == "," and names >= MIMIC4_COLUMNS:
            return "mimic4"
        if len(names) > 1 and not names.isdisjoint(records.TABLE.text):
            return table
    return None


def read_text_file(rows: NoteFile) -> Iterator[Note]:
    """Yield the one note of a text file."""
    path = rows.path
    with opening.open_bytes(path, encoding=rows.columns.encoding, report=rows.report) as file:
        data = file.read(opening.MAX_NOTE_CHARS + 1)
    if len(data) > opening.MAX_NOTE_CHARS:
        raise FormatError(
            f"{path} is over {opening.MAX_NOTE_CHARS:,} bytes: too long for one note. Give its --format."
        )
    if data[:2] in opening.UTF16_BOMS:  # "Unicode" on Windows
        decoded = data.decode("utf-32" if data.startswith(codecs.BOM_UTF32_LE) else "utf-16", "replace")
    elif is_binary(data):
        raise BinaryFile(path)
    else:
        decoded = data.removeprefix(opening.UTF8_BOM).decode(errors="surrogateescape")
    if not decoded or decoded.isspace():
        raise EmptyFile(path)
    text = opening.mend(decoded)
    if text is not decoded:
        rows.warn(records.UTF8_REPLACED)
    note_id = records.file_id(path, records.split_suffix(path)[0], folder=rows.folder)
    yield Note(opening.mend(note_id), text)


def is_binary(data: bytes) -> bool:
    """Whether the first bytes of a file are binary: many control characters, not just a stray NUL."""
    sample = data[:_SAMPLE]
    n_control = len(sample.translate(None, delete=_PRINTABLE))
    return n_control >= 32 and n_control > 0.05 * len(sample)


_READERS = {"text": read_text_file, "jsonl": read_json_lines, "fhir": read_fhir}
