"""CSV and TSV, among them MIMIC's: one row a note, in fields that may hold line breaks."""

import csv
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers.records import (
    EMPTY_NOTE,
    MAX_NOTE_CHARS,
    NO_ID,
    UTF8_REPLACED,
    Columns,
    EmptyFile,
    Layout,
    ReadReport,
    choose,
    mend,
    open_utf8,
    require,
    row_id,
    split_suffix,
)

MAX_HEADER_CHARS = 1024 * 1024
WITHDRAWN = ("1", "1.0")


def read_table(
    path: Path, *, delimiter: str, layout: Layout, columns: Columns, report: ReadReport
) -> Iterator[Note]:
    """Read the rows of a delimited file whose first row names the columns."""
    source = layout.source or split_suffix(path)[0]
    # Lines end at "\n" alone, which is faster; the csv module deals with "\r\n" itself.
    with open_utf8(path) as file, io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="\n") as lines:
        rows = _rows(lines, delimiter=delimiter, path=path)
        header = _header(rows, path)
        choice = choose(columns, layout=layout, found=header)
        require(choice, layout=layout, found=header, path=path)
        text_at = header.index(choice.text or "")
        id_at = header.index(choice.id) if choice.id is not None else None
        flag_at = header.index(choice.error_flag) if choice.error_flag is not None else None
        kept = [(key, header.index(column)) for key, column in choice.metadata]

        for n_row, (line, parsed) in enumerate(rows, start=1):
            if isinstance(parsed, str):
                report.skip(parsed, line, path=path)
                continue
            if len(parsed) != len(header):
                reason = "too few fields" if len(parsed) < len(header) else "too many fields"
                report.skip(reason, line, path=path)
                continue
            row = parsed if all(map(str.isascii, parsed)) else [mend(field) for field in parsed]
            if flag_at is not None and row[flag_at].strip() in WITHDRAWN:
                report.skip(f"marked as an error ({choice.error_flag} is 1)", line, path=path)
                continue
            text = row[text_at]
            if not text or text.isspace():
                report.skip(EMPTY_NOTE, line, path=path)
                continue
            if row != parsed:
                report.warn(UTF8_REPLACED, line, path=path)
            found_id = row[id_at].strip() if id_at is not None else None
            if found_id == "":
                report.warn(NO_ID, line, path=path)
            metadata = {key: value for key, at in kept if (value := row[at].strip())}
            yield Note(row_id(source, found_id, n_row), text, metadata)


def _rows(lines: io.TextIOWrapper, *, delimiter: str, path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each row with the line it begins on; in place of a row that cannot be parsed, the reason."""
    first = lines.readline(MAX_HEADER_CHARS)
    if len(first) == MAX_HEADER_CHARS:
        raise FormatError(f"{path}: its first line is over {MAX_HEADER_CHARS:,} characters, no row of names.")
    ended = False

    def end() -> Iterator[str]:
        nonlocal ended
        ended = True
        yield from ()

    csv.field_size_limit(MAX_NOTE_CHARS)
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
                    f"{path}, line {line}: a field goes on for over {MAX_NOTE_CHARS:,} characters. "
                    "A quote is probably not closed there."
                ) from error
            yield line, "carriage return outside quotes"
            continue
        if ended:  # Only a quote that is still open makes the parser ask for more before it gives a row.
            yield line, "quote never closed"
        elif row:
            yield line, row


def _header(rows: Iterator[tuple[int, list[str] | str]], path: Path) -> list[str]:
    _, header = next(rows, (0, None))
    if header is None:
        raise EmptyFile(path)
    if isinstance(header, str):
        raise FormatError(f"{path}: its first row cannot be parsed ({header}). It must name the columns.")
    return [name.strip() for name in header]
