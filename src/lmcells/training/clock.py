"""Seconds of training, and what is done every so many minutes of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Seconds of training, over all resumptions, without pauses."""

    def __init__(self, seconds_before: float = 0.0) -> None:
        self._before, self._started, self._last_lap = seconds_before, time.monotonic(), seconds_before

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    def lap(self) -> tuple[float, float]:
        """Seconds of training in all, and since the last lap."""
        seconds, last = self.seconds, self._last_lap
        self._last_lap = seconds
        return seconds, seconds - last

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


class Cadence:
    """Something that falls due every so many minutes of a clock; never, if they are 0."""

    def __init__(self, clock: Clock, *, minutes: float) -> None:
        self._clock, self._minutes, self._last = clock, minutes, clock.seconds

    @property
    def is_due(self) -> bool:
        return self._minutes > 0 and self._clock.seconds - self._last >= 60 * self._minutes

    def restart(self) -> None:
        self._last = self._clock.seconds
