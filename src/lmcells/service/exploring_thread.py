"""Questions about the model, answered one by one by a thread of their own: notes do not wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.exceptions import HTTPException

Answer = TypeVar("Answer")

MOST_WAITING = 32  # a person asks a few; more is a program that should wait


class ExploringThread:
    """One thread, so that all explorers together take one core at most; it starts with the first question."""

    def __init__(self, *, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._n_inside = 0
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="lmcells-explorer")

    async def __call__(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer, or refuse with 429 where too many wait."""
        if self._n_inside >= self._most_waiting:
            raise HTTPException(
                429,
                f"{self._most_waiting} questions about the model wait, the most there may be. Try again later.",
                headers={"Retry-After": "1"},
            )
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        finally:
            self._n_inside -= 1
