"""A path -> its notes, whatever the format, one file or a folder of them."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path

from lmcells.errors import FormatError, InputError, MissingExtra, nearest
from lmcells.notes.note import Note
from lmcells.notes.readers import opening, records
from lmcells.notes.readers.fhir import is_fhir, read_fhir
from lmcells.notes.readers.json_lines import read_json_lines
from lmcells.notes.readers.opening import BinaryFile, EmptyFile
from lmcells.notes.readers.records import Columns, NoteFile
from lmcells.notes.readers.report import ReadReport
from lmcells.notes.readers.tables import read_table

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
_HEAD = 64 * 1024  # bytes that tell the format
_SAMPLE = 8192  # bytes that tell whether a file is binary
_PRINTABLE = bytes({*b"\t\n\v\f\r\b\x1b", *range(32, 256)})


def read_notes(
    path: Path,
    *,
    format: str = "auto",  # noqa: A002 - the command line's word
    columns: Columns = Columns(),  # noqa: B008 - immutable
    report: ReadReport,
) -> Iterator[Note]:
    """Stream the notes of a file, or of the files of a folder in sorted order.

    A wrong format name or path is refused at once; a damaged file when the stream reaches the damage.
    """
    if format not in FORMATS:
        raise FormatError(
            f"{format!r} is not a format of notes. Allowed: {', '.join(FORMATS)}.{nearest(format, FORMATS)}"
        )
    if path != opening.STDIN and not path.exists():
        raise InputError(f"{path} does not exist. Give a file of notes or a folder of them.")
    read = _read_folder if path.is_dir() else _read_file

    def counted() -> Iterator[Note]:
        for note in read(path, format, columns, report):
            report.n_read += 1
            report.ids.add(note.id)
            yield note

    return counted()


def _read_file(
    path: Path, file_format: str, columns: Columns, report: ReadReport, folder: Path | None = None
) -> Iterator[Note]:
    if file_format == "auto":
        file_format = detect_format(path, encoding=columns.encoding)
        if columns.delimiter is not None and file_format == "text":
            file_format = "csv"
    delimiter, layout = TABLES.get(file_format, ("", records.DOCUMENTS))
    rows = NoteFile(path, columns, report, layout.source or records.split_suffix(path)[0], folder)
    if file_format in _READERS:
        return _READERS[file_format](rows)
    if file_format == "parquet":
        try:
            from lmcells.notes.readers.parquet import read_parquet
        except ImportError:
            raise MissingExtra("pyarrow", extra="parquet", purpose="Reading Parquet files") from None
        if path == opening.STDIN:
            raise FormatError("Parquet cannot be read from standard input. Name the file.")
        return read_parquet(rows)
    return read_table(rows, delimiter=columns.delimiter or delimiter, layout=layout)


def _read_folder(folder: Path, file_format: str, columns: Columns, report: ReadReport) -> Iterator[Note]:
    """Read the files whose suffix is known, or is that of the named format; count the others."""
    wanted = {"mimic3": "csv", "mimic4": "csv", "fhir": "jsonl"}.get(file_format, file_format)
    n_files = 0
    for path in _files_in(folder):
        suffix = records.split_suffix(path)[1]
        if not suffix or (wanted != "auto" and records.SUFFIXES[suffix] != wanted):
            report.warn("file of another kind ignored", path=path)
            continue
        n_files += 1
        try:
            yield from _read_file(path, file_format, columns, report, folder)
        except EmptyFile:
            report.skip(records.EMPTY_NOTE if records.SUFFIXES[suffix] == "text" else "empty file", path=path)
        except BinaryFile:
            report.skip("binary file", path=path)
    if n_files == 0:
        suffixes = sorted(suffix for suffix, kind in records.SUFFIXES.items() if wanted in ("auto", kind))
        raise FormatError(
            f"{folder} holds no file of notes. Files that are read: {', '.join(suffixes)}, plain or .gz."
        )


def _files_in(folder: Path) -> Iterator[Path]:
    """Walk a folder in sorted order without hidden files and folders; one listing is in memory at a time."""
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
        elif entry.is_file() or entry.is_symlink():  # a broken link is an error, not a lost note
            yield path


def detect_format(path: Path, *, encoding: str = "utf-8") -> str:
    """Tell the format of a file by its name, and by its first bytes where the name leaves it open."""
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
    if head.removeprefix(opening.UTF8_BOM).lstrip()[:1] == b"{":
        return "fhir" if is_fhir(head) else "jsonl"
    return _by_header(head) or "text"


def _by_header(head: bytes) -> str | None:
    """Tell a table by its row of column names; None when the first line does not name columns."""
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
            f"{path} is over {opening.MAX_NOTE_CHARS:,} bytes: too long for one note. Name its --format."
        )
    if data[:2] in opening.UTF16_BOMS:  # what Windows calls Unicode
        decoded = data.decode("utf-16", "replace")
    elif is_binary(data):
        raise BinaryFile(path)
    else:
        decoded = data.removeprefix(opening.UTF8_BOM).decode(errors="surrogateescape")
    if not decoded or decoded.isspace():
        raise EmptyFile(path)
    text = opening.mend(decoded)
    if text is not decoded:
        rows.warn(records.UTF8_REPLACED)
    yield Note(records.text_file_id(path, folder=rows.folder), text)


def is_binary(data: bytes) -> bool:
    """Whether the first bytes of a file are not text: many control characters, not just a stray NUL."""
    sample = data[:_SAMPLE]
    n_control = len(sample.translate(None, delete=_PRINTABLE))
    return n_control >= 32 and n_control > 0.05 * len(sample)


_READERS = {"text": read_text_file, "jsonl": read_json_lines, "fhir": read_fhir}
