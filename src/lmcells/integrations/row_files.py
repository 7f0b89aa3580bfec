"""Rows -> a JSON lines, CSV or Parquet file, all with the same columns."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from lmcells.errors import ConfigError, MissingExtra

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
