"""One row an expansion: what `annotate` writes, and what the exports read again."""

import csv
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError, InputError, MissingExtra
from lmcells.expansion.expansion import Expansion
from lmcells.integrations.row_files import RowLayout
from lmcells.notes.note import Note
from lmcells.notes.readers.replacement import mend

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
