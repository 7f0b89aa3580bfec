"""Worker processes that end with their parent, however it ends."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from typing import Any, TypeVar

from lmcells.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Work and its items -> the result of each item as it comes."""


def run_in_workers(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int, *, prepare: Callable[[], object]
) -> Iterator[Result]:
    """Yield results as they are ready; one worker means this process, and each process runs `prepare` once."""
    with worker_pool(workers, prepare=prepare) as run:
        yield from run(work, items)


@contextmanager
def worker_pool(workers: int, *, prepare: Callable[[], object]) -> Iterator[Run]:
    """Yield a function that runs work in a pool of processes, which several calls in turn share."""
    if workers == 1:
        yield map
        return
    # Forking a process that has threads is not safe, so each worker is a fresh interpreter.
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=_start_worker, initargs=(prepare,)) as pool:

        def run(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
            running: set[Future[Result]] = set()
            for item in items:
                running.add(pool.submit(work, item))
                if len(running) > workers:  # one item at most waits, to bound memory
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)

        try:
            yield run
        except BrokenProcessPool:
            raise InputError(
                "a worker was killed, perhaps for lack of memory. Continue with --resume and fewer --workers."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(prepare: Callable[[], object]) -> None:
    """Leave Ctrl-C to the parent process, and end with it."""
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    prepare()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)
