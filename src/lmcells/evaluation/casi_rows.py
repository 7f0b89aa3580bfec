"""The rows of CASI, the Clinical Abbreviation Sense Inventory, from the file as published or from a CSV re-save.

Published: `AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt`, seven columns between pipes, no quotes, no header,
Windows-1252 bytes here and there, and now and then a pipe inside the last column. Re-saved by the authors of the
paper: a comma CSV with a header and, in a first column without a name, the row's position in the published file.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from lmcells.errors import FormatError
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import open_utf8

COLUMNS = ("sf", "target_lf", "sf_rep", "start_idx", "end_idx", "section", "context")
_N_COLUMNS = len(COLUMNS)
_ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one accepts any byte


@dataclass(frozen=True, slots=True)
class CasiRow:
    """One annotated short form."""

    number: int  # of its line in the published file
    short_form: str
    long_form: str
    start: int
    end: int  # of the last character or of the one after it: the file has both
    section: str | None
    text: str = field(repr=False)


class _Line(NamedTuple):
    """A row's cells in the order of `COLUMNS`, and where it was read."""

    line: int
    number: int
    cells: list[str]


def read_casi_rows(path: Path, *, report: ReadReport) -> Iterator[CasiRow]:
    """Stream the rows; one that is not a row is counted with its line and reason."""
    with open_utf8(path) as file:
        warn = partial(report.warn, path=path)
        lines = _numbered(_decoded(file, warn))
        first = next(lines, None)
        if first is None:
            raise FormatError(f"{path} holds no row. {_expected()}")
        read_lines = _published_lines if first[1].count("|") >= _N_COLUMNS - 1 else _resaved_lines
        for row in read_lines(first, lines, path):
            try:
                casi_row = _row(row)
            except _NotARow as reason:
                report.skip(str(reason), row.line, path=path)
                continue
            report.n_read += 1
            yield casi_row


def _decoded(lines: Iterable[bytes], warn: Callable[[str, int], None]) -> Iterator[str]:
    """Decode line by line: one stray byte must not spoil the others, whose offsets count characters."""
    for number, content in enumerate(lines, start=1):
        for encoding in _ENCODINGS:
            try:
                line = content.decode(encoding)
            except UnicodeDecodeError:
                continue
            if encoding != _ENCODINGS[0]:
                warn(f"not UTF-8: read as {encoding}", number)
            yield line
            break


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if not line.isspace())


class _NotARow(Exception):  # noqa: N818 - the reason why a line is skipped, not a failure
    pass


def _row(found: _Line) -> CasiRow:
    if len(found.cells) < _N_COLUMNS:
        raise _NotARow(f"fewer than {_N_COLUMNS} columns")
    short_form, long_form, _, start, end, section, text = found.cells
    if not (start.strip().isdecimal() and end.strip().isdecimal()):
        raise _NotARow("an offset is not a whole number")
    return CasiRow(
        found.number,
        short_form.strip(),
        " ".join(long_form.split()),
        int(start),
        int(end),
        " ".join(section.split()) or None,
        text,
    )


def _published_lines(first: tuple[int, str], rest: Iterator[tuple[int, str]], path: Path) -> Iterator[_Line]:
    del path  # every line stands for itself: nothing can be wrong with the file as a whole
    has_header = first[1].partition("|")[0].strip().lower() == COLUMNS[0]
    for line, content in rest if has_header else chain((first,), rest):
        yield _Line(line, line - has_header, content.rstrip("\r\n").split("|", _N_COLUMNS - 1))


def _resaved_lines(first: tuple[int, str], rest: Iterator[tuple[int, str]], path: Path) -> Iterator[_Line]:
    reader = csv.reader(content for _, content in chain((first,), rest))
    header = [name.strip().lower() for name in next(reader)]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise FormatError(f"{path} has no column {missing[0]!r}. {_expected()}")
    places = [header.index(name) for name in COLUMNS]
    index = header.index("") if "" in header else None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield _Line(reader.line_num, 0, [])
            continue
        number = reader.line_num - 1
        if index is not None and index < len(cells) and cells[index].isdecimal():
            number = int(cells[index]) + 1  # the position counts from 0
        complete = len(cells) > max(places)
        yield _Line(reader.line_num, number, [cells[place] for place in places] if complete else [])


def _expected() -> str:
    return (
        f"Expected CASI as published, {_N_COLUMNS} columns between '|', or a CSV with the columns "
        f"{', '.join(COLUMNS)}."
    )
