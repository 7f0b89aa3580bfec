"""Parquet: a text column, or `sections` as list<struct<header, text>>; read batch by batch. Needs pyarrow."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lmcells.errors import FormatError, InputError
from lmcells.notes.note import Note, Section
from lmcells.notes.readers import opening, records
from lmcells.notes.readers.records import Choice, NoteFile, Part

BATCH_ROWS = 256
STRINGS = ("string", "large_string", "string_view")
BYTES = ("binary", "large_binary", "binary_view")


def read_parquet(rows: NoteFile) -> Iterator[Note]:
    path = rows.path
    _check_magic(path)
    try:
        with _open(path) as file:
            part = rows.part or Part(0, file.num_row_groups)
            choice = rows.choose(file.schema_arrow.names, layout=records.DOCUMENTS)
            _check_types(choice, file.schema_arrow, path)
            used = [choice.text, choice.sections, choice.id, *(column for _, column in choice.metadata)]
            names = list(dict.fromkeys(name for name in used if name is not None))
            first_row = part.rows_before + 1
            groups = list(range(part.start, part.end))
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names, use_threads=False):
                yield from _notes(batch, rows, choice, first_row=first_row)
                first_row += batch.num_rows
            rows.report.advance(path.stat().st_size * len(groups) // max(1, file.num_row_groups))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} is a damaged Parquet file. Copy or write it again.") from error


def _open(path: Path) -> pq.ParquetFile:
    # Buffered, so that a single large row group is not held in memory.
    return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


def cut_parquet(path: Path) -> Iterator[Part | None]:
    """Cut a file between row groups; None is the whole of a damaged one."""
    try:
        with _open(path) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    except (pa.ArrowException, OSError, ValueError):
        yield None
        return
    start = rows_before = n_bytes = n_rows = 0
    for end, group in enumerate(groups, start=1):
        n_bytes, n_rows = n_bytes + group.total_byte_size, n_rows + group.num_rows
        if n_bytes >= opening.PART_BYTES or end == len(groups):
            yield Part(start, end, rows_before=rows_before)
            start, rows_before, n_bytes, n_rows = end, rows_before + n_rows, 0, 0


def _notes(batch: Any, rows: NoteFile, choice: Choice, *, first_row: int) -> Iterator[Note]:
    none = [None] * batch.num_rows
    texts = _strings(batch.column(choice.text)) if choice.text is not None else none
    documents: Iterable[Any] = (
        _documents(batch.column(choice.sections)) if choice.sections is not None else none
    )
    ids = [value or "" for value in _strings(batch.column(choice.id))] if choice.id is not None else none
    kept = [(key, _strings(batch.column(column))) for key, column in choice.metadata]
    for at, (given, document, found_id) in enumerate(zip(texts, documents, ids, strict=True)):
        text, sections = document or (given or "", None)
        metadata = {key: column[at] or "" for key, column in kept}
        row = first_row + at
        yield from rows.note(text, found_id, metadata, row=row, line=row, sections=sections)


def _documents(column: Any) -> Iterator[tuple[str, tuple[Section, ...]] | None]:
    """Yield the joined sections of each row; None if it has none."""
    sections = column.flatten()
    fields = dict(zip((field.name for field in sections.type), sections.flatten(), strict=True))
    texts = (text or "" for text in _strings(fields["text"]))
    pairs = zip(_strings(fields["header"]), texts, strict=True)
    for n_sections in column.value_lengths().to_pylist():
        yield records.join_sections(islice(pairs, n_sections)) if n_sections else None


def _strings(column: Any) -> list[str | None]:
    """Return an Arrow array as Python strings; bytes that are not UTF-8 arrive as lone surrogates."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if str(column.type) not in (*STRINGS, *BYTES):
        column = column.cast(pa.string())
    if str(column.type) in STRINGS:
        try:
            return list(column.to_pylist())
        except UnicodeDecodeError:
            column = column.cast(pa.large_binary())
    return [None if value is None else value.decode(errors="surrogateescape") for value in column.to_pylist()]


def _check_types(choice: Choice, schema: Any, path: Path) -> None:
    """Refuse a column that occurs twice, or that has the wrong type."""
    wanted: list[tuple[str | None, str, Callable[[Any], bool], str]] = [
        (choice.text, "text", _is_text, "--text-column"),
        (choice.sections, "list<struct<header: string, text: string>>", _is_sections, "--text-column"),
        (choice.id, "an id", _is_plain, "--id-column"),
    ]
    for key, column in choice.metadata:
        flag = "--category-column" if key == "category" else "--metadata-column"
        wanted.append((column, "plain values", _is_plain, flag))
    for name, needed, fits, flag in wanted:
        if name is None:
            continue
        if schema.get_field_index(name) < 0:
            raise FormatError(f"{path} has two columns {name!r}. Rename one, or name another with {flag}.")
        kind = schema.field(name).type
        if not fits(kind):
            raise FormatError(
                f"{path}: column {name!r} holds {kind}, not {needed}. Name another with {flag}."
            )


def _is_text(kind: Any) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(value) in (*STRINGS, *BYTES, "null")


def _is_sections(kind: Any) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list and pa.types.is_struct(kind.value_type)):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return all(name in fields and _is_text(fields[name]) for name in ("header", "text"))


def _is_plain(kind: Any) -> bool:
    return not pa.types.is_nested(kind)


def _check_magic(path: Path) -> None:
    """Refuse a file that is not Parquet with a clearer message than pyarrow's."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(opening.PARQUET_MAGIC))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not magic:
        raise opening.EmptyFile(path)
    if magic[:2] == opening.GZIP_MAGIC:
        raise FormatError(f"{path} is Parquet inside gzip, which cannot be streamed. Run gunzip on it.")
    if magic != opening.PARQUET_MAGIC:
        raise FormatError(f"{path} is not a Parquet file. Give its --format, or write it again.")
