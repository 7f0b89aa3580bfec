"""Files of notes to read, and the files of rows that `annotate` writes and exports read (JSON lines, CSV, Parquet)."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Literal

from lmcells.errors import ConfigError, FormatError, InputError, MissingExtra
from lmcells.expansion.expansion import Expansion
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.readers.opening import mend

FORMATS = (".jsonl", ".csv", ".parquet")
_ROW_GROUP = 1 << 16

Kind = Literal["whole", "number", "date", "time", "candidates", "flag"]


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """Files and folders of notes, in reading order."""

    paths: Sequence[Path]
    format: str = "auto"
    columns: Columns = field(default_factory=Columns)

    def read(self, report: ReadReport) -> Iterator[Note]:
        """Stream all notes; `report` counts what is read and skipped. A path that does not exist is refused first."""
        streams = [
            read_notes(path, format=self.format, columns=self.columns, report=report) for path in self.paths
        ]
        return chain.from_iterable(streams)

    def files(self) -> list[Path]:
        """Return all files that exist, including those in folders."""
        found = (file for path in self.paths for file in (path.rglob("*") if path.is_dir() else [path]))
        return sorted(file for file in found if file.is_file())


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a file, and the types of those that are not text."""

    columns: tuple[str, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    number: str | None = None  # the column with row numbers
    first: int = 1  # its first number


COLUMNS = ("note_id", *(field.name for field in fields(Expansion)))
_KINDS: dict[str, Kind] = {"start": "whole", "end": "whole", "probability": "number"}
LAYOUT = RowLayout(COLUMNS, _KINDS | {"candidates": "candidates", "error_prone": "flag"})


def annotation_row(note: Note, expansion: Expansion) -> dict[str, Any]:
    """Return the row of an expansion: the note's id and the fields of `lmcells.Expansion`."""
    return {"note_id": mend(note.id), **expansion.to_dict()}


# Writing

WriteRows = Callable[[bytes], None]
"""Takes rows as JSON lines."""
_Parse = Callable[[bytes], Iterator[dict[str, Any]]]


def check_format(output: Path) -> None:
    """Refuse an unknown suffix, and Parquet without pyarrow."""
    if output.suffix.lower() not in FORMATS:
        allowed = ", ".join(FORMATS)
        raise ConfigError(f"--output {output}: the name must end in {allowed}; found {output.suffix!r}.")
    if output.suffix.lower() == ".parquet":
        _pyarrow("Writing")


def open_rows(path: Path | BinaryIO, suffix: str, layout: RowLayout) -> AbstractContextManager[WriteRows]:
    """Open a file of rows in the format of a suffix; yields the function that writes them.

    JSON lines can also be written to an open stream.
    """
    numbers = count(layout.first)

    def parse(rows: bytes) -> Iterator[dict[str, Any]]:
        for line in rows.splitlines():
            yield ({layout.number: next(numbers)} if layout.number else {}) | json.loads(line)

    if not isinstance(path, Path) or suffix == ".jsonl":
        return _write_json_lines(path, layout, parse)
    return (_write_csv if suffix == ".csv" else _write_parquet)(path, layout, parse)


@contextmanager
def _write_json_lines(path: Path | BinaryIO, layout: RowLayout, parse: _Parse) -> Iterator[WriteRows]:
    with path.open("wb") if isinstance(path, Path) else nullcontext(path) as file:

        def write(rows: bytes) -> None:
            if layout.number:
                rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in parse(rows)).encode()
            file.write(rows)

        yield write


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV; missing fields stay empty."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


@contextmanager
def _write_csv(path: Path, layout: RowLayout, parse: _Parse) -> Iterator[WriteRows]:
    nested = [name for name, kind in layout.kinds.items() if kind == "candidates"]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, layout.columns, lineterminator="\n")
        table.writeheader()

        def write(rows: bytes) -> None:
            for row in parse(rows):
                table.writerow(row | {name: json.dumps(row[name], ensure_ascii=False) for name in nested})

        yield write


@contextmanager
def _write_parquet(path: Path, layout: RowLayout, parse: _Parse) -> Iterator[WriteRows]:
    pa, pq = _pyarrow("Writing")
    schema = arrow_schema(layout)
    readers = {"date": lambda value: datetime.fromisoformat(value).date(), "time": datetime.fromisoformat}
    converted = {name: readers[kind] for name, kind in layout.kinds.items() if kind in readers}
    waiting: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as file:

        def flush() -> None:
            file.write_table(pa.Table.from_pylist(waiting, schema=schema))
            waiting.clear()

        def write(rows: bytes) -> None:
            waiting.extend(
                row | {name: read(row[name]) for name, read in converted.items()} for row in parse(rows)
            )
            if len(waiting) >= _ROW_GROUP:
                flush()

        yield write
        if waiting:
            flush()


def arrow_schema(layout: RowLayout) -> Any:
    pa, _ = _pyarrow("Writing")
    candidate = [("long_form", pa.string()), ("probability", pa.float64()), ("concept_id", pa.string())]
    types = {None: pa.string(), "whole": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}
    types |= {"date": pa.date32(), "time": pa.timestamp("s"), "candidates": pa.list_(pa.struct(candidate))}
    return pa.schema([(name, types[layout.kinds.get(name)]) for name in layout.columns])


def _pyarrow(doing: str) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose=f"{doing} Parquet files") from None
    return pa, pq


# Reading


def read_annotations(path: Path) -> Iterator[tuple[str, Expansion]]:
    """Yield the note's id and the expansion of each row of a file that `annotate` wrote, in any format."""
    read = {".jsonl": _read_json_lines, ".csv": _read_csv, ".parquet": _read_parquet}.get(path.suffix.lower())
    if read is None:
        raise FormatError(f"{path}: annotations are .jsonl, .csv or .parquet files, found {path.suffix!r}.")
    if not path.is_file():
        raise InputError(f"{path} does not exist. Make it with: lmcells annotate")

    def rows() -> Iterator[Any]:
        try:
            yield from read(path)
        except (csv.Error, OSError, ValueError):  # not in UTF-8, or not Parquet
            raise FormatError(
                f"{path} is damaged, or not {path.suffix}. Make it with: lmcells annotate"
            ) from None

    for number, row in enumerate(rows(), start=1):
        try:
            fields_of = {name: row[name] for name in COLUMNS[1:] if name in row}
            yield str(row["note_id"]), Expansion.from_dict({"error_prone": False} | fields_of)
        except (KeyError, TypeError, ValueError):
            raise FormatError(
                f"{path}, row {number} is not an expansion. It needs the columns of lmcells annotate: "
                f"{', '.join(COLUMNS)}."
            ) from None


def _read_json_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield None


def _read_csv(path: Path) -> Iterator[Any]:
    csv.field_size_limit(1 << 30)  # an inventory may have many senses
    parsers: dict[str, Callable[[str], Any]] = {"whole": int, "number": float, "candidates": json.loads}
    parsers["flag"] = "True".__eq__
    parse = {name: parsers[kind] for name, kind in LAYOUT.kinds.items()}
    with path.open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            try:
                yield {name: parse.get(name, str)(value) if value else None for name, value in row.items()}
            except (TypeError, ValueError, RecursionError):
                yield None


def _read_parquet(path: Path) -> Iterator[Any]:
    _, pq = _pyarrow("Reading")
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(4096):
            yield from batch.to_pylist()
