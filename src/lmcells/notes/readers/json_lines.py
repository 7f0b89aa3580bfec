"""JSON lines: one object a line, `{"id", "text"}` or `{"id", "sections": [{"header", "text"}]}`."""

import io
import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError
from lmcells.notes.note import Note, Section
from lmcells.notes.readers.records import (
    DOCUMENTS,
    EMPTY_NOTE,
    MAX_NOTE_CHARS,
    NO_ID,
    UTF8_REPLACED,
    Choice,
    Columns,
    EmptyFile,
    ReadReport,
    choose,
    join_sections,
    mend,
    open_utf8,
    require,
    row_id,
    split_suffix,
)

# Not strict: a raw tab or NUL inside a string is no reason to lose a note.
_decode = json.JSONDecoder(strict=False).decode


class _NoNote(Exception):  # noqa: N818 - the reason why a line is skipped, not a failure
    pass


def read_json_lines(path: Path, *, columns: Columns, report: ReadReport) -> Iterator[Note]:
    """Read a file with a JSON object on each line. Blank lines are not rows."""
    source = split_suffix(path)[0]
    choice_for = lru_cache(partial(choose, columns, layout=DOCUMENTS))  # most objects have the same keys
    n_row, first_keys, has_text = 0, None, False
    with open_utf8(path) as file:
        for n_row, (line, content) in enumerate(_lines(file), start=1):
            try:
                document = _parse(content)
                keys = tuple(document)
                choice = choice_for(found=keys)
                first_keys = first_keys or keys
                has_text = has_text or choice.text is not None or choice.sections is not None
                warn = partial(report.warn, line=line, path=path)
                note = _note(document, choice=choice, source=source, n_row=n_row, warn=warn)
            except _NoNote as reason:
                report.skip(str(reason), line, path=path)
                continue
            yield note
    if n_row == 0:
        raise EmptyFile(path)
    if first_keys is None:
        raise FormatError(
            f"{path}: none of its {n_row} lines is a JSON object. JSON lines hold one object a line; "
            "an array becomes that with: jq -c '.[]'."
        )
    if not has_text:
        require(choice_for(found=first_keys), layout=DOCUMENTS, found=first_keys, path=path)


def _lines(file: io.BufferedReader) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not blank with its number; None for one that is longer than any note."""
    n_line = 0
    while content := file.readline(MAX_NOTE_CHARS):
        n_line += 1
        if len(content) == MAX_NOTE_CHARS:
            while content and not content.endswith(b"\n"):
                content = file.readline(MAX_NOTE_CHARS)
            yield n_line, None
        elif not content.isspace():
            yield n_line, content


def _parse(content: bytes | None) -> dict[str, Any]:
    if content is None:
        raise _NoNote("line too long")
    try:
        document = _decode(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise _NoNote("not JSON") from None
    if not isinstance(document, dict):
        raise _NoNote("not a JSON object")
    return document


def _note(
    document: dict[str, Any], *, choice: Choice, source: str, n_row: int, warn: Callable[[str], None]
) -> Note:
    given, sections = _text(document, choice)
    if not given or given.isspace():
        raise _NoNote(EMPTY_NOTE)
    found_id = document[choice.id] if choice.id is not None else None
    if found_id is not None:
        if not _is_plain(found_id):
            raise _NoNote("id is not a string or a number")
        found_id = mend(str(found_id)).strip()
    if found_id == "":
        warn(NO_ID)
    text = mend(given)
    if text is not given:
        warn(UTF8_REPLACED)
    metadata = _metadata(document, choice, warn)
    return Note(row_id(source, found_id, n_row), text, metadata, sections)


def _text(document: dict[str, Any], choice: Choice) -> tuple[str, tuple[Section, ...] | None]:
    """Return the document's text, and its sections where it is given as sections."""
    if choice.text is None and choice.sections is None:
        raise _NoNote("no text")
    if choice.sections is not None and (given := document[choice.sections]) is not None:
        return join_sections(_pairs(given))
    text = document[choice.text] if choice.text is not None else None
    if not isinstance(text, str | None):
        raise _NoNote("text is not a string")
    return text or "", None


def _pairs(sections: Any) -> Iterator[tuple[str | None, str]]:
    """Yield header and text of each section, once they are found to be such."""
    if not isinstance(sections, list):
        raise _NoNote("malformed sections")
    for section in sections:
        if not isinstance(section, dict):
            raise _NoNote("malformed sections")
        header, text = section.get("header"), section.get("text")
        if not isinstance(header, str | None) or not isinstance(text, str | None):
            raise _NoNote("malformed sections")
        yield header, text or ""


def _metadata(document: dict[str, Any], choice: Choice, warn: Callable[[str], None]) -> dict[str, str]:
    for name, flag in choice.missing:
        warn(f"no {name!r} ({flag})")
    metadata = {}
    for key, column in choice.metadata:
        value = document[column]
        if value is None:
            continue
        if not _is_plain(value):
            warn(f"{key!r} is not a string or a number: left out")
        elif kept := mend(str(value)).strip():
            metadata[key] = kept
    return metadata


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)
