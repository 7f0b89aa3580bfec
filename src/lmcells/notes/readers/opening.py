"""Opening files of notes, plain or gzip, in any encoding, or standard input; always read as UTF-8."""

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from lmcells.errors import FormatError, InputError
from lmcells.notes.readers.report import ReadReport

GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

STDIN = Path("-")  # standard input, as the user names it

# Longer than any note. It bounds memory if a quote is never closed or a file has no line breaks.
MAX_NOTE_CHARS = 64 * 1024 * 1024
BUFFER_BYTES = 256 * 1024
PART_BYTES = 8 * 1024 * 1024  # of a large file that is read in parts
_SURROGATE = re.compile("[\ud800-\udfff]")


class EmptyFile(FormatError):  # noqa: N818 - it names a thing, like MissingExtra
    """An empty file: an error if the user named it, skipped inside a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty. Give a file that holds at least one note.")


class BinaryFile(FormatError):  # noqa: N818
    """A file that is not text: an error if the user named it, skipped inside a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a binary file, not text. Give text in UTF-8, or name its --format.")


def mend(text: str) -> str:
    """Return `text` with U+FFFD for each byte that was not UTF-8; the same object if there is none.

    Files are decoded with `surrogateescape`, so a bad byte arrives here as a lone surrogate: decoding runs ahead of
    parsing, and only now is it known whose note the byte is in. A lone "\\ud800" in JSON is treated likewise.
    """
    if text.isascii():
        return text
    try:
        text.encode()  # the fastest test for surrogates
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def count_bytes(data: bytes, value: bytes) -> int:
    """Count a byte, faster than `bytes.count` if it is frequent."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(value)))


class _Chunks(io.RawIOBase):
    """A readable file made of chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._rest = memoryview(chunk)
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes] = self._rest[:n_bytes]
        self._rest = self._rest[n_bytes:]
        return n_bytes


@cache
def _standard_input() -> io.BufferedReader:
    """Standard input, opened once: detecting its format must not consume what is read later."""

    def chunks() -> Iterator[bytes]:
        first = b""
        while len(first) < BUFFER_BYTES and (more := os.read(0, BUFFER_BYTES)):
            first += more
        yield first
        while more := os.read(0, BUFFER_BYTES):
            yield more

    return io.BufferedReader(_Chunks(chunks()), BUFFER_BYTES)


def _as_utf8(file: io.BufferedReader, encoding: str, path: Path) -> io.BufferedReader:
    """Read text of another encoding as UTF-8; bytes that it does not define stay as they are."""
    decode = codecs.getincrementaldecoder(encoding)
    errors = "replace" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"

    def chunks() -> Iterator[bytes]:
        decoder = decode(errors)
        try:
            while data := file.read(BUFFER_BYTES):
                yield decoder.decode(data).encode(errors="surrogateescape")
            yield decoder.decode(b"", final=True).encode(errors="surrogateescape")
        except UnicodeError:  # no byte order mark, say
            raise FormatError(f"{path} is not {encoding.upper()} text. Name another --encoding.") from None

    return io.BufferedReader(_Chunks(chunks()), BUFFER_BYTES)


@contextmanager
def open_bytes(
    path: Path, *, encoding: str = "utf-8", report: ReadReport | None = None
) -> Iterator[io.BufferedReader]:
    """Open a file for reading as UTF-8, decompressed if its first bytes are those of gzip, whatever its name.

    `report` follows how much of the file on disk has been read.
    """
    try:
        with ExitStack() as stack:
            if path == STDIN:
                file = _standard_input()
            else:
                file = cast(io.BufferedReader, stack.enter_context(path.open("rb", buffering=BUFFER_BYTES)))
                if report is not None:
                    stack.enter_context(report.reading(file))
            if file.peek(2)[:2] == GZIP_MAGIC:
                if path == STDIN:
                    raise FormatError("standard input is gzip. Unpack it: zcat FILE | lmcells ...")
                unzipped = stack.enter_context(gzip.GzipFile(fileobj=file))
                file = io.BufferedReader(unzipped, BUFFER_BYTES)
            yield file if encoding == "utf-8" else _as_utf8(file, encoding, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{path} is a truncated or damaged gzip file. Copy or download it again."
        raise FormatError(message) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def open_stretch(path: Path, start: int, end: int) -> Iterator[io.BufferedReader]:
    """Open the bytes from `start` to `end` of a plain file."""

    def chunks() -> Iterator[bytes]:
        while (left := end - file.tell()) > 0 and (data := file.read(min(left, BUFFER_BYTES))):
            yield data

    try:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            yield io.BufferedReader(_Chunks(chunks()), BUFFER_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def open_utf8(
    path: Path, *, encoding: str = "utf-8", report: ReadReport | None = None
) -> Iterator[io.BufferedReader]:
    """Open a file after its byte order mark; refuses an empty file, and UTF-16 unless it is named."""
    with open_bytes(path, encoding=encoding, report=report) as file:
        head = file.peek(3)[:3]
        if not head:
            raise EmptyFile(path)
        if head[:2] in UTF16_BOMS:
            raise FormatError(
                f"{path} is UTF-16. Save it as UTF-8; a file of notes can be read with --encoding utf-16."
            )
        if head == UTF8_BOM:
            file.read(len(UTF8_BOM))
        yield file
