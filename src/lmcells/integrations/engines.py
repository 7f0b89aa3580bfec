"""Who does the work: this process, several of them, or a cluster. All give the same results, in any order."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from signal import SIG_IGN, SIGINT, signal
from threading import Thread

from lmcells.errors import ConfigError, InputError
from lmcells.integrations.annotation_shard import AnnotationTask, Shard, ShardResult

Engine = Callable[[AnnotationTask, Iterable[Shard], int], Iterator[ShardResult]]
"""Takes a task, shards and the number of workers; gives the results as they come."""

ENGINES = ("local", "ray", "spark")


def find_engine(name: str) -> Engine:
    """Return the engine of a name; an error says what to install where it is not there."""
    if name == "local":
        return run_locally
    if name == "ray":
        from lmcells.integrations.ray_engine import run_on_ray

        return run_on_ray
    if name == "spark":
        from lmcells.integrations.spark_engine import run_on_spark

        return run_on_spark
    raise ConfigError(f"engine: found {name!r}, allowed: {', '.join(ENGINES)}.")


def run_locally(task: AnnotationTask, shards: Iterable[Shard], workers: int) -> Iterator[ShardResult]:
    """Expand shards in this process, or in as many as asked for, each of which loads the model once."""
    if workers == 1:
        return map(task.run, shards)
    return _run_in_processes(task, shards, workers)


def _run_in_processes(task: AnnotationTask, shards: Iterable[Shard], workers: int) -> Iterator[ShardResult]:
    # A fresh interpreter for each worker: forking one that has threads is not safe.
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(task.expander.opened,)
    )
    running: set[Future[ShardResult]] = set()
    try:
        for shard in shards:
            running.add(pool.submit(task.run, shard))
            if len(running) > workers:  # one shard waits while the others are worked on: memory stays bounded
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool:
        raise InputError(
            "a worker was ended, perhaps for want of memory. Go on with --resume and fewer --workers."
        ) from None
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)


def _begin(load: Callable[[], object]) -> None:
    """Make a worker ready: it ends with its parent, however that ends, and leaves Ctrl-C to it."""
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def end_with_parent() -> None:
            wait_for([sentinel])
            os._exit(1)

        Thread(target=end_with_parent, daemon=True).start()
    load()
