"""JSON lines: one object per line, `{"id", "text"}` or `{"id", "sections": [{"header", "text"}]}`."""

import io
import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError
from lmcells.notes.note import Note, Section, metadata_text
from lmcells.notes.readers import opening, records
from lmcells.notes.readers.records import Choice, Columns, NoteFile, Part

# Not strict: a raw tab or NUL inside a string should not lose a note.
_decode = json.JSONDecoder(strict=False).decode


class _Skip(Exception):  # noqa: N818 - why a line is skipped, not a failure
    pass


def read_json_lines(rows: NoteFile) -> Iterator[Note]:
    """Yield the notes of a file with a JSON object on each line; blank lines are ignored."""
    # Most objects have the same keys.
    choice_for = lru_cache(partial(records.choose, rows.columns, layout=records.DOCUMENTS))
    n_row, first_keys, has_text = 0, None, False
    part = rows.part or Part(0, 0)
    with rows.open() as file:
        for n_row, (line, content) in enumerate(_lines(file, part.lines_before), start=part.rows_before + 1):
            try:
                document = _parse(content)
                keys = tuple(document)
                choice = choice_for(found=keys)
                first_keys = first_keys or keys
                has_text = has_text or choice.text is not None or choice.sections is not None
                text, sections = _text(document, choice)
                if not text or text.isspace():
                    raise _Skip(records.EMPTY_NOTE)
                found_id = document[choice.id] if choice.id is not None else None
                if found_id is not None and not _is_plain(found_id):
                    raise _Skip("id is not a string or a number")
            except _Skip as reason:
                rows.skip(str(reason), line)
                continue
            metadata = _metadata(document, choice, partial(rows.warn, line=line))
            note_id = None if found_id is None else str(found_id)
            yield from rows.note(text, note_id, metadata, row=n_row, line=line, sections=sections)
    if rows.part is not None:  # `cut_json_lines` has seen a document
        return
    if n_row == 0:
        raise opening.EmptyFile(rows.path)
    if first_keys is None:
        raise FormatError(
            f"{rows.path}: none of its {n_row} lines is a JSON object. JSON lines hold one object per line; "
            "convert an array with: jq -c '.[]'."
        )
    if not has_text:
        if "resourceType" in first_keys:
            raise FormatError(f"{rows.path} has FHIR resources. Read it with --format fhir.")
        rows.choose(first_keys, layout=records.DOCUMENTS)  # says what is missing


def cut_json_lines(path: Path, columns: Columns) -> Iterator[Part | None]:
    """Cut a plain file at line breaks if one of its first lines is a document; None is the whole file."""
    with opening.open_utf8(path) as file:
        start = file.tell()
        size = path.stat().st_size
        lines_before = rows_before = 0
        while start < size:
            file.seek(start)
            read = file.read(opening.PART_BYTES) + file.readline(opening.MAX_NOTE_CHARS)
            *lines, rest = read.split(b"\n")
            if not lines_before and (rest or not any(_is_document(line, columns) for line in lines)):
                yield None
                return
            if rest:
                yield Part(start, size, lines_before, rows_before)
                return
            yield Part(start, start + len(read), lines_before, rows_before)
            start += len(read)
            lines_before += len(lines)
            rows_before += sum(not line.isspace() for line in lines if line)


def _is_document(content: bytes, columns: Columns) -> bool:
    """Whether a line is an object with text or sections."""
    try:
        choice = records.choose(columns, layout=records.DOCUMENTS, found=tuple(_parse(content)))
    except _Skip:
        return False
    return choice.text is not None or choice.sections is not None


def _lines(file: io.BufferedReader, lines_before: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not blank, with its number; None in place of one too long for a note."""
    n_line = lines_before
    while content := file.readline(opening.MAX_NOTE_CHARS):
        n_line += 1
        if len(content) == opening.MAX_NOTE_CHARS:
            while content and not content.endswith(b"\n"):
                content = file.readline(opening.MAX_NOTE_CHARS)
            yield n_line, None
        elif not content.isspace():
            yield n_line, content


def _parse(content: bytes | None) -> dict[str, Any]:
    if content is None:
        raise _Skip("line too long")
    try:
        document = _decode(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise _Skip("not JSON") from None
    if not isinstance(document, dict):
        raise _Skip("not a JSON object")
    return document


def _text(document: dict[str, Any], choice: Choice) -> tuple[str, tuple[Section, ...] | None]:
    """Return the document's text, and its sections if it has any."""
    if choice.text is None and choice.sections is None:
        raise _Skip("no text")
    if choice.sections is not None and (given := document[choice.sections]):  # an empty list is none
        return records.join_sections(_headers_and_texts(given))
    text = document[choice.text] if choice.text is not None else None
    if not isinstance(text, str | None):
        raise _Skip("text is not a string")
    return text or "", None


def _headers_and_texts(sections: Any) -> Iterator[tuple[str | None, str]]:
    malformed = _Skip("malformed sections")
    if not isinstance(sections, list) or not all(isinstance(section, dict) for section in sections):
        raise malformed
    for section in sections:
        header, text = section.get("header"), section.get("text")
        if not isinstance(header, str | None) or not isinstance(text, str | None):
            raise malformed
        yield header, text or ""


def _metadata(document: dict[str, Any], choice: Choice, warn: Callable[[str], None]) -> dict[str, str]:
    for name, flag in choice.missing:
        warn(f"no {name!r} ({flag})")
    metadata = {}
    for key, column in choice.metadata:
        value = document[column]
        if value is not None and not _is_plain(value):
            warn(f"{key!r} is not a string or a number: left out")
        elif value is not None:
            metadata[key] = metadata_text(value)
    return metadata


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)
