"""How a long command shows that it is alive: a live line on a terminal, now and then a plain one in a log.

Not rich: one line needs no library of 13 MB, and a bare GPU machine has none.
"""

import shutil
import sys
import time
from typing import Self

_LIVE_INTERVAL = 0.1
_PLAIN_INTERVAL = 10.0
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """One line about work in progress, on standard error, rewritten in place on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._interval = _LIVE_INTERVAL if self._live else _PLAIN_INTERVAL
        self._last = time.monotonic()

    def update(self, message: str) -> None:
        """Show a message in place of the last one, unless that is only just there."""
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


def notes_message(n_notes: int, n_characters: int, *, seconds: float) -> str:
    """How far the reading of notes has come, and how fast it goes."""
    seconds = max(seconds, 1e-9)
    return f"{n_notes:,} notes, {n_notes / seconds:,.0f} notes/s, {n_characters / seconds / 1e6:,.1f} MB/s"
