"""One row an expansion: what `annotate` writes, and what the exports read again."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from lmcells.errors import ConfigError, FormatError, InputError, MissingExtra
from lmcells.expansion.expansion import Expansion
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.readers.records import mend

# Which notes to read: files or folders, their format and columns.


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """Files and folders of notes, in the order in which they are read."""

    paths: Sequence[Path]
    format: str = "auto"
    columns: Columns = field(default_factory=Columns)

    def read(self, report: ReadReport) -> Iterator[Note]:
        """Stream all notes; what cannot be read is in the report."""
        for path in self.paths:
            yield from read_notes(path, format=self.format, columns=self.columns, report=report)

    def files(self) -> list[Path]:
        """All files that are there, those of folders included."""
        found = (file for path in self.paths for file in (path.rglob("*") if path.is_dir() else [path]))
        return sorted(file for file in found if file.is_file())


# Rows -> a JSON lines, CSV or Parquet file, all with the same columns.


FORMATS = (".jsonl", ".csv", ".parquet")
_ROW_GROUP = 1 << 16

Kind = Literal["whole", "number", "date", "time", "candidates"]
WriteRows = Callable[[bytes], None]
"""Takes rows as JSON lines."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a file, and what they hold where that is no text."""

    columns: tuple[str, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    number: str | None = None  # a column that the file itself counts, from 1 on


def check_format(output: Path) -> None:
    """Refuse a name that tells no format, and Parquet where nothing can write it."""
    if output.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"--output {output}: its name must end in {', '.join(FORMATS)}; found {output.suffix!r}."
        )
    if output.suffix.lower() == ".parquet":
        _pyarrow()


def open_rows(path: Path, suffix: str, layout: RowLayout) -> AbstractContextManager[WriteRows]:
    """Open a file of rows in the format of a suffix; the context gives the function that writes."""
    writers = {".jsonl": _json_lines, ".csv": _csv, ".parquet": _parquet}
    return writers[suffix](path, layout)


@contextmanager
def _json_lines(path: Path, layout: RowLayout) -> Iterator[WriteRows]:
    parse = _Parser(layout)
    with path.open("wb") as file:

        def write(rows: bytes) -> None:
            if layout.number:
                rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in parse(rows)).encode()
            file.write(rows)

        yield write


@contextmanager
def _csv(path: Path, layout: RowLayout) -> Iterator[WriteRows]:
    parse = _Parser(layout)
    nested = [name for name, kind in layout.kinds.items() if kind == "candidates"]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, layout.columns, lineterminator="\n")
        table.writeheader()

        def write(rows: bytes) -> None:
            for row in parse(rows):
                table.writerow(row | {name: json.dumps(row[name], ensure_ascii=False) for name in nested})

        yield write


@contextmanager
def _parquet(path: Path, layout: RowLayout) -> Iterator[WriteRows]:
    pa, pq = _pyarrow()
    schema = arrow_schema(layout)
    readers = {"date": lambda value: datetime.fromisoformat(value).date(), "time": datetime.fromisoformat}
    converted = {name: readers[kind] for name, kind in layout.kinds.items() if kind in readers}
    parse = _Parser(layout)
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
    """Return the columns as Arrow types."""
    pa, _ = _pyarrow()
    candidate = pa.struct(
        [("long_form", pa.string()), ("probability", pa.float64()), ("concept_id", pa.string())]
    )
    types = {
        "whole": pa.int64(),
        "number": pa.float64(),
        "date": pa.date32(),
        "time": pa.timestamp("s"),
        "candidates": pa.list_(candidate),
    }
    kinds = layout.kinds
    return pa.schema(
        [(name, types[kinds[name]] if name in kinds else pa.string()) for name in layout.columns]
    )


class _Parser:
    """Reads rows, and gives them their numbers where the layout has any."""

    def __init__(self, layout: RowLayout) -> None:
        self._number = layout.number
        self._last = 0

    def __call__(self, rows: bytes) -> Iterator[dict[str, Any]]:
        for line in rows.splitlines():
            self._last += 1
            yield ({self._number: self._last} if self._number else {}) | json.loads(line)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose="Writing Parquet files") from None
    return pa, pq


# One row an expansion: what `annotate` writes, and what the exports read again.


COLUMNS = ("note_id", *(field.name for field in fields(Expansion)))
LAYOUT = RowLayout(
    COLUMNS, {"start": "whole", "end": "whole", "probability": "number", "candidates": "candidates"}
)

_NUMBERS = {"start": int, "end": int, "probability": float}


def annotation_row(note: Note, expansion: Expansion) -> dict[str, Any]:
    """Return the row of an expansion, under the names of its fields."""
    return {"note_id": mend(note.id), **expansion.to_dict()}


def read_annotations(path: Path) -> Iterator[tuple[str, Expansion]]:
    """Yield the note's id and the expansion of each row of a file that `annotate` wrote, whatever its format."""
    read = {".jsonl": _read_json_lines, ".csv": _read_csv, ".parquet": _read_parquet}.get(path.suffix.lower())
    if read is None:
        raise FormatError(f"{path}: annotations are .jsonl, .csv or .parquet files, found {path.suffix!r}.")
    if not path.is_file():
        raise InputError(f"{path} does not exist. Make it with: lmcells annotate")
    for number, row in read(path):
        try:
            expansion = {name: row[name] for name in COLUMNS[1:]}
            yield str(row["note_id"]), Expansion.from_dict(expansion)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{path}, row {number} is no expansion ({type(error).__name__}). Needed are the columns of "
                f"lmcells annotate: {', '.join(COLUMNS)}."
            ) from None


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise FormatError(
                    f"{path}, line {number} is not a JSON object. Make it again: lmcells annotate"
                )
            yield number, row


def _read_csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(1 << 30)  # candidates of an inventory with many senses
    with path.open(encoding="utf-8", newline="") as table:
        for number, row in enumerate(csv.DictReader(table), start=1):
            values: dict[str, Any] = {name: value or None for name, value in row.items()}
            try:
                for name, kind in _NUMBERS.items():
                    values[name] = None if values[name] is None else kind(values[name])
                values["candidates"] = json.loads(values["candidates"])
            except (KeyError, TypeError, ValueError):
                values = {}
            yield number, values


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose="Reading Parquet files") from None
    number = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(4096):
            for row in batch.to_pylist():
                number += 1
                yield number, row
