"""What commands print: tables and JSON on standard output, progress on standard error.

Not rich: one line does not need a library of 13 MB, which a bare GPU machine does not have.
"""

import argparse
import json
import math
import os
import re
import shutil
import string
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TextIO

from lmcells.notes.note import Note

_LIVE_INTERVAL = 0.1
_PLAIN_INTERVAL = 10.0
_CLEAR = "\r\x1b[K"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Table = tuple[str, Sequence[tuple[str, Any]]]  # title, and names with values


class ProgressLine:
    """One line about work in progress, on standard error, rewritten in place on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._interval = _LIVE_INTERVAL if self._live else _PLAIN_INTERVAL
        self._began = self._last = time.monotonic()

    def notes(self, n_notes: int, n_characters: int, share: float | None = None) -> None:
        """Show how many notes were read, how fast, and the time left if the share of the input is known."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        speed = f"{n_notes / seconds:,.0f} notes/s, {n_characters / seconds / 1e6:,.1f} MB/s"
        left = f"{share:.0%} of the input, {clock(seconds * (1 - share) / share)} left, " if share else ""
        self.update(f"{left}{n_notes:,} notes, {speed}")

    def counting(self, notes: Iterable[Note]) -> Iterator[Note]:
        """Yield the notes, and show how many there were."""
        n_characters = 0
        for n_notes, note in enumerate(notes, start=1):
            yield note
            n_characters += len(note.text)
            if n_notes % 100 == 0:
                self.notes(n_notes, n_characters)

    def update(self, message: str) -> None:
        """Show a message in place of the last one, unless that one is too recent."""
        if time.monotonic() - self._last < self._interval:
            return
        self._last = time.monotonic()
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            print(f"{_CLEAR}{message[:width]}", end="", file=sys.stderr, flush=True)
        else:
            print(message, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 0:03:10."""
    left = round(seconds)
    return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"


def has_colors(stream: TextIO) -> bool:
    """Whether to write colours to a stream: only to a terminal that supports them, unless the user wants none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return text without control characters, which would steer the terminal: names and ids come from others."""
    return _CONTROL.sub("?", text)


def print_json(value: Any) -> None:
    """Print a value as JSON, which has no NaN: such numbers are null."""
    is_unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    print(json.dumps(_finite(value), ensure_ascii=not is_unicode, indent=1))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_result(options: argparse.Namespace, data: Mapping[str, Any], tables: Iterable[Table]) -> None:
    """Print a command's result: all of it as JSON with --json, else its tables."""
    if options.json:
        print_json(data)
    else:
        for title, rows in tables:
            if title:
                print(printable(title))
            shown = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in rows]
            print_columns(shown, left=(0, 1))


def print_columns(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> None:
    """Print rows of text in columns; those numbered in `left` are aligned to the left, the others to the right."""
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            value.ljust(width) if column in left else value.rjust(width)
            for column, (value, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(["", *cells]).rstrip())


class _NoneAsDash(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        return "-" if value is None else super().format_field(value, format_spec)


def table(rows: Iterable[Mapping[str, Any]], columns: str) -> list[list[str]]:
    """Titles and cells of a table; a column is its title and how to format a row: "word {word} | seen {count:,}"."""
    parts = [column.partition("{") for column in columns.split(" | ")]
    titles = [title.strip() for title, _, _ in parts]
    return [
        titles,
        *([_NoneAsDash().vformat(brace + form, (), row) for _, brace, form in parts] for row in rows),
    ]


def print_rows(rows: Iterable[Mapping[str, Any]], columns: str, *, left: Sequence[int] = (0,)) -> None:
    print_columns(table(rows, columns), left=left)


def account_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows for what reading skipped or warned about: how often, and where first (a `ReadReport` as plain data)."""
    places = report["first_seen"]
    return [
        (f"{kind}: {reason}", f"{n:,}" + (f" (first at {places[reason]})" if places.get(reason) else ""))
        for kind, group in (("skipped", "skipped"), ("warning", "warnings"))
        for reason, n in report[group].items()
    ]


def flat_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table; nested settings become rows of their own: `settings.epochs`."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        inner = flat_rows(value) if isinstance(value, Mapping) else None
        rows += [(name, str(value))] if inner is None else [(f"{name}.{each}", text) for each, text in inner]
    return rows
