"""A path -> its notes, whatever the format, one file or a folder of them."""

import os
from collections.abc import Iterator
from pathlib import Path

from lmcells.errors import FormatError, InputError, nearest
from lmcells.notes.note import Note
from lmcells.notes.readers.columns import DEFAULT_COLUMNS, MIMIC3, MIMIC4, TABLE, Columns
from lmcells.notes.readers.formats import FORMATS, detect_format
from lmcells.notes.readers.identity import SUFFIXES, split_suffix
from lmcells.notes.readers.json_lines import read_json_lines
from lmcells.notes.readers.opening import BinaryFile, EmptyFile
from lmcells.notes.readers.parquet import read_parquet
from lmcells.notes.readers.report import EMPTY_NOTE, ReadReport
from lmcells.notes.readers.tables import read_table
from lmcells.notes.readers.text_files import read_text_file

TABLES = {"mimic3": (",", MIMIC3), "mimic4": (",", MIMIC4), "csv": (",", TABLE), "tsv": ("\t", TABLE)}


def read_notes(
    path: Path,
    *,
    format: str = "auto",  # noqa: A002 - the command line's word
    columns: Columns = DEFAULT_COLUMNS,
    report: ReadReport,
) -> Iterator[Note]:
    """Stream the notes of a file, or of the files of a folder in sorted order.

    A wrong format name or path is refused at once; a damaged file when the stream reaches the damage.
    """
    if format not in FORMATS:
        raise FormatError(
            f"{format!r} is not a format of notes. Allowed: {', '.join(FORMATS)}.{nearest(format, FORMATS)}"
        )
    if not path.exists():
        raise InputError(f"{path} does not exist. Give a file of notes or a folder of them.")
    read = _read_folder if path.is_dir() else _read_file
    return _counted(read(path, format, columns, report), report)


def _counted(notes: Iterator[Note], report: ReadReport) -> Iterator[Note]:
    for note in notes:
        report.n_read += 1
        yield note


def _read_file(
    path: Path, file_format: str, columns: Columns, report: ReadReport, folder: Path | None = None
) -> Iterator[Note]:
    if file_format == "auto":
        file_format = detect_format(path)
    if file_format == "text":
        return read_text_file(path, folder=folder, report=report)
    if file_format == "jsonl":
        return read_json_lines(path, columns=columns, report=report)
    if file_format == "parquet":
        return read_parquet(path, columns=columns, report=report)
    delimiter, layout = TABLES[file_format]
    return read_table(path, delimiter=delimiter, layout=layout, columns=columns, report=report)


def _read_folder(folder: Path, file_format: str, columns: Columns, report: ReadReport) -> Iterator[Note]:
    """Read the files whose suffix is known, or is that of the named format; the others are counted."""
    wanted = {"mimic3": "csv", "mimic4": "csv"}.get(file_format, file_format)
    n_files = 0
    for path in _files_in(folder):
        suffix = split_suffix(path)[1]
        if not suffix or (wanted != "auto" and SUFFIXES[suffix] != wanted):
            report.warn("file of another kind ignored", path=path)
            continue
        n_files += 1
        try:
            yield from _read_file(path, file_format, columns, report, folder)
        except EmptyFile:
            report.skip(EMPTY_NOTE if SUFFIXES[suffix] == "text" else "empty file", path=path)
        except BinaryFile:
            report.skip("binary file", path=path)
    if n_files == 0:
        suffixes = sorted(suffix for suffix, kind in SUFFIXES.items() if wanted in ("auto", kind))
        raise FormatError(f"{folder} holds no file of notes. Read are: {', '.join(suffixes)}, plain or .gz.")


def _files_in(folder: Path) -> Iterator[Path]:
    """Walk a folder in sorted order, hidden files and folders left out, one listing in memory at a time."""
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
        elif entry.is_file() or entry.is_symlink():  # a link to nothing is an error, not a note less
            yield path
