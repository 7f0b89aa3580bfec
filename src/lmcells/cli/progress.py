"""How a long command shows that it is alive: a live line on a terminal, now and then a plain one in a log."""

import sys
import time
from types import TracebackType
from typing import Any, Self

_PLAIN_INTERVAL = 10.0


class ProgressLine:
    """One line about work in progress, on standard error.

    rich draws it on a terminal. Where rich is not installed (a bare GPU machine) or nobody watches (a log), a
    plain line is printed every ten seconds.
    """

    def __init__(self) -> None:
        self._status = _rich_status() if sys.stderr.isatty() else None
        self._last_plain = time.monotonic()
        self.started = time.monotonic()

    def update(self, message: str) -> None:
        """Show a message in place of the last one."""
        if self._status is not None:
            self._status.update(message)
        elif time.monotonic() - self._last_plain > _PLAIN_INTERVAL:
            self._last_plain = time.monotonic()
            print(message, file=sys.stderr)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


def _rich_status() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=True).status("")
