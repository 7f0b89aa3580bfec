"""CSV and TSV, such as MIMIC's: one note per row, in fields that may contain line breaks."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain, compress, pairwise
from pathlib import Path

import numpy as np

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers import opening
from lmcells.notes.readers.records import Layout, NoteFile, Part
from lmcells.notes.readers.report import Line

MAX_HEADER_CHARS = 1024 * 1024
WITHDRAWN = ("1", "1.0")
_Rows = Iterator[tuple[Line, list[str] | str]]


def read_table(notes: NoteFile, *, delimiter: str, layout: Layout) -> Iterator[Note]:
    """Yield the notes of a delimited file with a header row."""
    part = notes.part or Part(0, 0)
    with notes.open() as file, _text(file) as lines:
        if part.is_well_formed:
            rows = _split_rows(lines.read(), delimiter=delimiter, lines_before=part.lines_before)
        elif part.lines_before:
            rows = _rows(lines, delimiter=delimiter, path=notes.path, lines_before=part.lines_before)
        else:
            rows = _all_rows(lines, delimiter=delimiter, path=notes.path)
        if part.lines_before:
            with opening.open_utf8(notes.path) as beginning, _text(beginning) as first_lines:
                header = _header(_all_rows(first_lines, delimiter=delimiter, path=notes.path), notes.path)
        else:
            header = _header(rows, notes.path)
        choice = notes.choose(header, layout=layout)
        text_at = header.index(choice.text or "")
        id_at = header.index(choice.id) if choice.id is not None else None
        flag_at = header.index(choice.error_flag) if choice.error_flag is not None else None
        kept = [(key, header.index(column)) for key, column in choice.metadata]

        for n_row, (line, row) in enumerate(rows, start=part.rows_before + 1):
            if isinstance(row, str):
                notes.skip(row, line)
            elif len(row) != len(header):
                notes.skip("too few fields" if len(row) < len(header) else "too many fields", line)
            elif flag_at is not None and row[flag_at].strip() in WITHDRAWN:
                notes.skip(f"marked as an error ({choice.error_flag} is 1)", line)
            else:
                found_id = row[id_at] if id_at is not None else None
                metadata = {key: row[at] for key, at in kept}
                yield from notes.note(row[text_at], found_id, metadata, row=n_row, line=line)


def _text(file: io.BufferedReader) -> io.TextIOWrapper:
    """Split lines at "\\n" only, which is faster; the csv module handles "\\r\\n" itself."""
    return io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="\n")


def _all_rows(lines: io.TextIOWrapper, *, delimiter: str, path: Path) -> _Rows:
    """Yield the rows of a whole file; refuses an endless first line."""
    first = lines.readline(MAX_HEADER_CHARS)
    if len(first) == MAX_HEADER_CHARS:
        raise FormatError(
            f"{path}: its first line is over {MAX_HEADER_CHARS:,} characters, so it is not a header row."
        )
    yield from _rows(chain((first,), lines), delimiter=delimiter, path=path)


def _rows(lines: Iterable[str], *, delimiter: str, path: Path, lines_before: int = 0) -> _Rows:
    """Yield each row, or why it cannot be parsed, with the line it begins on."""
    ended = False

    def end() -> Iterator[str]:
        nonlocal ended
        ended = True
        yield from ()

    csv.field_size_limit(opening.MAX_NOTE_CHARS)
    reader = csv.reader(chain(lines, end()), delimiter=delimiter)
    while True:
        line = lines_before + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "limit" in str(error):
                raise FormatError(
                    f"{path}, line {line}: a field is longer than {opening.MAX_NOTE_CHARS:,} characters. "
                    "A quote is probably not closed there."
                ) from error
            yield line, "carriage return outside quotes"
            continue
        if ended:  # the parser reads past the last line only inside an open quote
            yield line, "quote never closed"
        elif row:
            yield line, row


def _split_rows(part: str, *, delimiter: str, lines_before: int) -> _Rows:
    """Yield the rows of a well-formed part, as `_rows` does but several times faster."""
    pieces = part.split('"')
    outside, inside = pieces[::2], pieces[1::2]
    # Nothing between two quotes means that they stand for one, inside a field.
    fields = [0, *compress(range(1, len(inside)), outside[1:-1]), len(inside)] if inside else [0]
    quoted = [
        inside[first] if first + 1 == last else '"'.join(inside[first:last])
        for first, last in pairwise(fields)
    ]
    n_rows = n_before = n_quoted = 0  # rows so far; quoted fields before the row, and with it
    n_counted = n_breaks = 0  # quoted fields whose line breaks were counted, and these

    def line() -> int:
        nonlocal n_counted, n_breaks
        n_breaks += sum(text.count("\n") for text in quoted[n_counted:n_before])
        n_counted = n_before
        return lines_before + n_rows + n_breaks

    for written in '"'.join([outside[at] for at in fields]).split("\n")[:-1]:
        n_rows += 1
        row = written.removesuffix("\r").split(delimiter)
        n_before = n_quoted
        for at in [at for at, field in enumerate(row) if field == '"']:
            row[at] = quoted[n_quoted]
            n_quoted += 1
        if written not in ("", "\r"):
            yield line, row


def _header(rows: _Rows, path: Path) -> list[str]:
    _, header = next(rows, (0, None))
    if header is None:
        raise opening.EmptyFile(path)
    if isinstance(header, str):
        raise FormatError(f"{path}: its first row cannot be parsed ({header}). It must name the columns.")
    return [name.strip() for name in header]


def cut_table(path: Path, *, delimiter: str) -> Iterator[Part]:
    """Cut a plain UTF-8 file into parts of whole rows.

    A quote opens a field only at the field's start; inside a quoted field two quotes are one. So in a well-formed file
    a row ends at a line break after an even number of quotes. If a part has a quote or a carriage return anywhere else,
    the csv parser finds the end of its last row.
    """
    with opening.open_utf8(path) as file:
        start = file.tell()
        size = path.stat().st_size
        lines_before = rows_before = 0
        while start < size:
            file.seek(start)
            read = _whole_rows(file)
            n_rows = None if read is None else _count_rows(read, delimiter)
            # The csv parser refuses rows without end.
            is_short = (
                read is not None and b"\n" in read[:MAX_HEADER_CHARS] and len(read) <= opening.MAX_NOTE_CHARS
            )
            is_well_formed = n_rows is not None and is_short
            if read is not None and n_rows is None:
                file.seek(start)
                parsed = _parse_rows(file, delimiter=delimiter, path=path, lines_before=lines_before)
                read, n_rows = parsed or (None, None)
            no_header = not lines_before and not n_rows  # only blank lines so far
            if read is None or n_rows is None or no_header:
                yield Part(start, size, lines_before, rows_before)
                return
            yield Part(start, start + len(read), lines_before, rows_before, is_well_formed)
            start += len(read)
            rows_before += n_rows - (lines_before == 0)  # without the header row
            lines_before += opening.count_bytes(read, b"\n")


def _whole_rows(file: io.BufferedReader) -> bytes | None:
    """Read PART_BYTES and on to a line break after an even number of quotes; None if there is none."""
    pieces = [file.read(opening.PART_BYTES)]
    n_bytes, n_quotes = len(pieces[0]), opening.count_bytes(pieces[0], b'"')
    while n_quotes % 2 or not pieces[-1].endswith(b"\n"):
        pieces.append(file.readline(opening.MAX_NOTE_CHARS))
        n_bytes, n_quotes = n_bytes + len(pieces[-1]), n_quotes + pieces[-1].count(b'"')
        if not pieces[-1] or n_bytes > 2 * opening.MAX_NOTE_CHARS:
            return None
    return b"".join(pieces)


def _count_rows(part: bytes, delimiter: str) -> int | None:
    """Count the rows of a part that are not blank; None if a quote or a carriage return is out of place."""
    outside = _outside_quotes(part)
    at = re.escape(delimiter.encode())
    misplaced = rb'"(?:[^%b\n\r"]|(?<=[^%b\n"]"))' % (at, at)  # next to what cannot be there
    if re.search(misplaced, outside) or re.search(rb"\r(?!\n)", outside):
        return None
    return sum(line not in (b"", b"\r") for line in outside.split(b"\n"))


def _outside_quotes(part: bytes) -> bytes:
    """Return a part with one quote in place of each quoted field."""
    characters = np.frombuffer(part, np.uint8)
    quotes = np.flatnonzero(characters == ord('"'))
    starts, ends = np.append(0, quotes[1::2] + 1), np.append(quotes[::2] + 1, characters.size)
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    kept = characters[np.arange(lengths.sum()) + np.repeat(starts - before, lengths)]
    return bytes(kept)


def _parse_rows(
    file: io.BufferedReader, *, delimiter: str, path: Path, lines_before: int
) -> tuple[bytes, int] | None:
    """Read PART_BYTES and on to the end of a row, by the csv parser; return that and its number of rows."""
    read: list[bytes] = []
    n_bytes, is_over = 0, False

    def lines() -> Iterator[str]:
        nonlocal n_bytes, is_over
        while (line := file.readline(opening.MAX_NOTE_CHARS)).endswith(b"\n"):
            read.append(line)
            n_bytes += len(line)
            yield line.decode(errors="surrogateescape")
        is_over = True  # the parser's next row may continue in the last line

    rows = _rows(lines(), delimiter=delimiter, path=path, lines_before=lines_before)
    for n_rows, _ in enumerate(rows, start=1):
        if n_bytes >= opening.PART_BYTES and not is_over:
            return b"".join(read), n_rows
    return None
