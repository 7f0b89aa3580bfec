"""Opening a file of notes, plain or gzip; damage becomes an error that names the file."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from lmcells.errors import FormatError, InputError

GZIP_MAGIC = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

# Longer than any note. It bounds memory where a quote is never closed or a file has no line breaks.
MAX_NOTE_CHARS = 64 * 1024 * 1024
BUFFER_BYTES = 256 * 1024


class EmptyFile(FormatError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file without content: an error when it was asked for, skipped where it lies in a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty. Give a file that holds at least one note.")


class BinaryFile(FormatError):  # noqa: N818
    """A file that is no text at all: an error when it was asked for, skipped where it lies in a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a binary file, not text. Give text in UTF-8, or name its --format.")


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed when its first bytes say gzip, whatever its name."""
    try:
        with ExitStack() as stack:
            file = cast(io.BufferedReader, stack.enter_context(path.open("rb", buffering=BUFFER_BYTES)))
            if file.peek(2)[:2] == GZIP_MAGIC:
                unzipped = stack.enter_context(gzip.GzipFile(fileobj=file))
                file = io.BufferedReader(unzipped, BUFFER_BYTES)
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{path} is a truncated or damaged gzip file. Copy or download it again."
        raise FormatError(message) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def open_utf8(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file that must not be empty, placed after its byte order mark; UTF-16 is refused."""
    with open_bytes(path) as file:
        head = file.peek(3)[:3]
        if not head:
            raise EmptyFile(path)
        if head[:2] in UTF16_BOMS:
            raise FormatError(f"{path} is UTF-16. Save it as UTF-8: iconv -f UTF-16 -t UTF-8.")
        if head == UTF8_BOM:
            file.read(len(UTF8_BOM))
        yield file
