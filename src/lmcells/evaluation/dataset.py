"""A labelled short form in its context, and files of them in JSON lines.

    {"id", "text", "start", "end", "short_form", "section", "long_form", "note_id"}

`text` holds the short form at `[start, end)`; `section` is the header it stands under, or null; `long_form` is the
inventory's canonical name; `note_id` is the note that must stay out of pre-training.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError, InputError
from lmcells.files import atomic_write
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import open_utf8
from lmcells.notes.readers.replacement import mend


@dataclass(frozen=True, slots=True)
class Example:
    """A short form in its context, and what it stands for."""

    id: str
    text: str = field(repr=False)  # patient data: never in a log or a traceback
    start: int
    end: int
    short_form: str
    section: str | None
    long_form: str
    note_id: str


class _NoExample(Exception):  # noqa: N818 - the reason why a row is skipped, not a failure
    pass


def read_dataset(path: Path, *, report: ReadReport) -> Iterator[Example]:
    """Stream the examples of a file. A broken row is counted with its line and reason; the rest goes on."""
    n_read, first_reason = 0, ""
    with open_utf8(path) as file:
        for line, content in enumerate(file, start=1):
            if content.isspace():
                continue
            try:
                example = parse_example(content)
            except _NoExample as reason:
                first_reason = first_reason or f"line {line}: {reason}"
                report.skip(str(reason), line, path=path)
                continue
            n_read += 1
            report.n_read += 1
            yield example
    if not n_read:
        raise FormatError(
            f"{path} holds no example ({first_reason or 'only blank lines'}). "
            "A dataset is JSON lines, made by: lmcells dataset"
        )


def write_dataset(path: Path, examples: Iterable[Example]) -> int:
    """Write examples, one a line, atomically; return how many."""
    n_written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for example in examples:
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
                n_written += 1
    except OSError as error:
        raise InputError(f"dataset {path} cannot be written: {error.strerror or error}.") from error
    return n_written


def spells(written: str, short_form: str) -> bool:
    """Whether what stands in the text is the short form, up to case, dots and a plural ending."""
    written, short_form = (
        each.casefold().replace(".", "").replace("’", "'") for each in (written, short_form)
    )
    return written in (short_form, short_form + "s", short_form + "'s")


def parse_example(content: bytes) -> Example:
    """Check one line of a dataset."""
    try:
        row = json.loads(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise _NoExample("not JSON") from None
    if not isinstance(row, dict):
        raise _NoExample("not a JSON object")
    example = Example(
        id=_name(row, "id"),
        text=_string(row, "text"),
        start=_offset(row, "start"),
        end=_offset(row, "end"),
        short_form=_string(row, "short_form"),
        section=None if _value(row, "section", nullable=True) is None else _string(row, "section") or None,
        long_form=_string(row, "long_form"),
        note_id=_name(row, "note_id"),
    )
    if not example.short_form or not example.long_form:
        raise _NoExample("empty short_form or long_form")
    if not 0 <= example.start < example.end <= len(example.text):
        raise _NoExample("offsets outside the text")
    if not spells(example.text[example.start : example.end], example.short_form):
        raise _NoExample("the offsets do not point at the short form")
    return example


def _value(row: dict[str, Any], key: str, *, nullable: bool = False) -> Any:
    if key not in row or (row[key] is None and not nullable):
        raise _NoExample(f"no {key!r}")
    return row[key]


def _string(row: dict[str, Any], key: str) -> str:
    value = _value(row, key)
    if not isinstance(value, str):
        raise _NoExample(f"{key!r} is not a string")
    return mend(value)


def _name(row: dict[str, Any], key: str) -> str:
    value = _value(row, key)
    return str(value) if type(value) is int else _string(row, key)


def _offset(row: dict[str, Any], key: str) -> int:
    value = _value(row, key)
    if type(value) is not int:
        raise _NoExample(f"{key!r} is not a whole number")
    return value
