"""CSV and TSV, among them MIMIC's: one row a note, in fields that may hold line breaks."""

import csv
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers import opening, records
from lmcells.notes.readers.records import Layout, NoteFile

MAX_HEADER_CHARS = 1024 * 1024
WITHDRAWN = ("1", "1.0")


def read_table(notes: NoteFile, *, delimiter: str, layout: Layout) -> Iterator[Note]:
    """Yield the notes of a delimited file whose first row names the columns."""
    # Lines end at "\n" alone, which is faster; the csv module deals with "\r\n" itself.
    with notes.open() as file, io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="\n") as lines:
        rows = _rows(lines, delimiter=delimiter, path=notes.path)
        header = _header(rows, notes.path)
        choice = records.choose(notes.columns, layout=layout, found=header)
        records.require(choice, layout=layout, found=header, path=notes.path)
        text_at = header.index(choice.text or "")
        id_at = header.index(choice.id) if choice.id is not None else None
        flag_at = header.index(choice.error_flag) if choice.error_flag is not None else None
        kept = [(key, header.index(column)) for key, column in choice.metadata]

        for n_row, (line, row) in enumerate(rows, start=1):
            if isinstance(row, str):
                notes.skip(row, line)
            elif len(row) != len(header):
                notes.skip("too few fields" if len(row) < len(header) else "too many fields", line)
            elif flag_at is not None and row[flag_at].strip() in WITHDRAWN:
                notes.skip(f"marked as an error ({choice.error_flag} is 1)", line)
            else:
                found_id = row[id_at] if id_at is not None else None
                metadata = {key: row[at] for key, at in kept}
                note = notes.note(row[text_at], found_id, metadata, row=n_row, line=line)
                if note is not None:
                    yield note


def _rows(lines: io.TextIOWrapper, *, delimiter: str, path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each row with the line it begins on; in place of a row that cannot be parsed, the reason."""
    first = lines.readline(MAX_HEADER_CHARS)
    if len(first) == MAX_HEADER_CHARS:
        raise FormatError(
            f"{path}: its first line is over {MAX_HEADER_CHARS:,} characters, not a row of column names."
        )
    ended = False

    def end() -> Iterator[str]:
        nonlocal ended
        ended = True
        yield from ()

    csv.field_size_limit(opening.MAX_NOTE_CHARS)
    reader = csv.reader(chain((first,), lines, end()), delimiter=delimiter)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "limit" in str(error):
                raise FormatError(
                    f"{path}, line {line}: a field goes on for over {opening.MAX_NOTE_CHARS:,} characters. "
                    "A quote is probably not closed there."
                ) from error
            yield line, "carriage return outside quotes"
            continue
        if ended:  # only a quote that is still open makes the parser ask for more before it gives a row
            yield line, "quote never closed"
        elif row:
            yield line, row


def _header(rows: Iterator[tuple[int, list[str] | str]], path: Path) -> list[str]:
    _, header = next(rows, (0, None))
    if header is None:
        raise opening.EmptyFile(path)
    if isinstance(header, str):
        raise FormatError(f"{path}: its first row cannot be parsed ({header}). It must name the columns.")
    return [name.strip() for name in header]
