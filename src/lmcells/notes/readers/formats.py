"""The formats that can be read, and telling which one a file is in."""

import csv
from pathlib import Path

from lmcells.errors import FormatError, InputError
from lmcells.notes.readers.columns import TABLE
from lmcells.notes.readers.identity import SUFFIXES, split_suffix
from lmcells.notes.readers.opening import UTF8_BOM, UTF16_BOMS, BinaryFile, EmptyFile, open_bytes
from lmcells.notes.readers.parquet import PARQUET_MAGIC
from lmcells.notes.readers.text_files import is_binary

FORMATS = ("auto", "mimic3", "mimic4", "csv", "tsv", "jsonl", "parquet", "text")

MIMIC3_COLUMNS = {"row_id", "subject_id", "hadm_id", "category", "iserror", "text"}
MIMIC4_COLUMNS = {"note_id", "subject_id", "note_type", "text"}
PACKED = {
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
}
_HEAD = 64 * 1024


def detect_format(path: Path) -> str:
    """Tell the format of a file by its name, and by its first bytes where the name leaves it open."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; each of its files has its own format.")
    named = SUFFIXES.get(split_suffix(path)[1])
    if named is not None and named != "csv":
        return named
    with open_bytes(path) as file:
        head = file.read(_HEAD)
    if named == "csv":
        return _by_header(head) or named
    return _by_content(head, path)


def _by_content(head: bytes, path: Path) -> str:
    if not head:
        raise EmptyFile(path)
    for magic, kind in PACKED.items():
        if head.startswith(magic):
            raise FormatError(f"{path} is a {kind} file. Unpack it, or compress it with gzip instead.")
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if head[:2] in UTF16_BOMS:
        return "text"
    if is_binary(head):
        raise BinaryFile(path)
    if head.removeprefix(UTF8_BOM).lstrip()[:1] == b"{":
        return "jsonl"
    return _by_header(head) or "text"


def _by_header(head: bytes) -> str | None:
    """Tell a table by its row of column names; None when the first line is no such row."""
    lines = head.removeprefix(UTF8_BOM).lstrip().splitlines()
    line = lines[0].decode(errors="replace") if lines else ""
    for delimiter, table in ((",", "csv"), ("\t", "tsv")):
        try:
            names = {name.strip().lower() for name in next(csv.reader([line], delimiter=delimiter), [])}
        except csv.Error:
            continue
        if delimiter == "," and names >= MIMIC3_COLUMNS:
            return "mimic3"
        if delimiter == "," and names >= MIMIC4_COLUMNS:
            return "mimic4"
        if len(names) > 1 and not names.isdisjoint(TABLE.text):
            return table
    return None
