"""Expanding frames of notes (Arrow, pandas, polars and others) into a stream of rows, one per expansion.

reader = expander.expand_frame(df, text="note_text", id="note_id")   # nothing is expanded yet
reader.read_pandas()       # or polars.from_arrow(reader), or: for batch in reader
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lmcells.errors import FormatError, InputError, MissingExtra, nearest
from lmcells.expansion.expansion import Expansion
from lmcells.notes.note import Note

if TYPE_CHECKING:
    from lmcells.expansion.expander import Expander
    from lmcells.expansion.layers import LayerLike

ROW = "row"  # the id column if the caller names none: the number of the row, from 0
_FIELDS = tuple(each.name for each in fields(Expansion) if each.name != "candidates")
# The others are text.
_TYPES = {"start": "int64", "end": "int64", "probability": "float64", "error_prone": "bool"}


def expand_frame(
    expander: "Expander",
    frame: Any,
    *,
    text: str,
    id: str | None,  # noqa: A002 - as in all readers
    metadata: Sequence[str],
    batch_size: int,
    inventory: "LayerLike | None",
) -> Any:
    """Return a `pyarrow.RecordBatchReader`; see `Expander.expand_frame`."""
    if batch_size < 1:
        raise InputError(f"batch_size: found {batch_size}, allowed: 1 or more.")
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose="Expanding frames") from None
    metadata = [metadata] if isinstance(metadata, str) else metadata
    names = list(dict.fromkeys(name for name in (id, text, *metadata) if name is not None))
    reader = _stream(pa, frame, names)
    missing = [name for name in names if name not in reader.schema.names]
    if missing:
        found = reader.schema.names
        raise FormatError(
            f"the frame has no column {missing[0]!r}; columns found: {', '.join(found[:20])}."
            f"{nearest(missing[0], found)}"
        )
    if twice := [name for name in names if reader.schema.get_field_index(name) < 0]:
        raise FormatError(f"the frame has two columns {twice[0]!r}. Rename one.")
    if id in (*_FIELDS, "written", "concept_id", "candidates"):
        raise InputError(f"the id column {id!r} has the name of an output column. Rename it.")
    candidate = pa.struct(
        [("long_form", pa.string()), ("probability", pa.float64()), ("concept_id", pa.string())]
    )
    schema = pa.schema(
        [
            pa.field(ROW, pa.int64()) if id is None else reader.schema.field(id),
            *(pa.field(name, pa.type_for_alias(_TYPES.get(name, "string"))) for name in _FIELDS),
            pa.field("written", pa.string()),
            pa.field("concept_id", pa.string()),
            pa.field("candidates", pa.list_(candidate)),
        ]
    )

    def batches() -> Iterator[Any]:
        first = 0
        for batch in reader:
            for start in range(0, batch.num_rows, batch_size):
                part = batch.slice(start, batch_size)
                ids = pa.array(range(first, first + part.num_rows)) if id is None else part.column(id)
                yield rows_of(ids, _texts(pa, part.column(text), name=text), part.select(list(metadata)))
                first += part.num_rows

    def rows_of(ids: Any, texts: list[str | None], metadata_of: Any) -> Any:
        known = metadata_of.to_pylist() or [{}] * len(texts)
        notes = [(Note("", note, known[at]), at) for at, note in enumerate(texts) if note]
        at_row: list[int] = []
        rows: dict[str, list[Any]] = {name: [] for name in schema.names[1:]}
        for expansions, at in expander.pipe(
            notes, batch_size=batch_size, as_tuples=True, inventory=inventory
        ):
            for each in expansions:
                at_row.append(at)
                rows["written"].append((texts[at] or "")[each.start : each.end])
                for name in (*_FIELDS, "concept_id"):
                    rows[name].append(getattr(each, name))
                rows["candidates"].append(each.to_dict()["candidates"])
        columns = [pa.array(rows[name], schema.field(name).type) for name in schema.names[1:]]
        # Not `take`, which lacks types that frames have, such as the text of polars.
        own_ids = pa.concat_arrays([ids.slice(0, 0), *(ids.slice(at, 1) for at in at_row)])
        return pa.record_batch([own_ids, *columns], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _stream(pa: Any, frame: Any, names: list[str]) -> Any:
    """Read a frame as Arrow batches; only the needed columns of a frame in memory."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        kind = type(frame).__name__
        lazy = " Collect it first." if hasattr(frame, "collect") else ""
        raise InputError(
            "a frame must support the Arrow C stream interface (pyarrow, pandas from 2.2, polars, ...), "
            f"found: {kind}.{lazy}"
        )
    columns = getattr(frame, "columns", None)  # pandas and polars; a pyarrow table has column_names
    if isinstance(frame, pa.Table | pa.RecordBatch):
        if all(frame.schema.get_field_index(name) >= 0 for name in names):
            frame = frame.select(names)
    elif columns is not None and all(name in list(columns) for name in names):
        frame = frame[names]
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, ValueError):  # its message may quote a note
        raise FormatError(
            f"the frame cannot be read as Arrow. Give a frame with the columns {', '.join(names)}, each with values of "
            "one type, such as after astype('string')."
        ) from None


def _texts(pa: Any, column: Any, *, name: str) -> list[str | None]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if str(kind) not in ("string", "large_string", "string_view", "null"):
        raise FormatError(f"column {name!r} holds {kind}, not text.")
    texts: list[str | None] = column.to_pylist()
    return texts
