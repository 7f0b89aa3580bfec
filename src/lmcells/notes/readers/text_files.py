"""Text files: one file is one note."""

from collections.abc import Iterator
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers.identity import text_file_id
from lmcells.notes.readers.opening import (
    MAX_NOTE_CHARS,
    UTF8_BOM,
    UTF16_BOMS,
    BinaryFile,
    EmptyFile,
    open_bytes,
)
from lmcells.notes.readers.replacement import mend
from lmcells.notes.readers.report import UTF8_REPLACED, ReadReport

_PRINTABLE = bytes({*b"\t\n\v\f\r\b\x1b", *range(32, 256)})
_SAMPLE = 8192


def read_text_file(path: Path, *, folder: Path | None, report: ReadReport) -> Iterator[Note]:
    """Read one text file; `folder` is the one the user gave, if any."""
    with open_bytes(path) as file:
        data = file.read(MAX_NOTE_CHARS + 1)
    if len(data) > MAX_NOTE_CHARS:
        raise FormatError(
            f"{path} is over {MAX_NOTE_CHARS:,} bytes: too long for one note. Name its --format."
        )
    if data[:2] in UTF16_BOMS:  # what Windows calls Unicode
        decoded = data.decode("utf-16", "replace")
    elif is_binary(data):
        raise BinaryFile(path)
    else:
        decoded = data.removeprefix(UTF8_BOM).decode(errors="surrogateescape")
    if not decoded or decoded.isspace():
        raise EmptyFile(path)
    text = mend(decoded)
    if text is not decoded:
        report.warn(UTF8_REPLACED, path=path)
    yield Note(text_file_id(path, folder=folder), text)


def is_binary(data: bytes) -> bool:
    """Tell from its first bytes whether a file is no text: many control characters, not a stray NUL."""
    sample = data[:_SAMPLE]
    n_control = len(sample.translate(None, delete=_PRINTABLE))
    return n_control >= 32 and n_control > 0.05 * len(sample)
