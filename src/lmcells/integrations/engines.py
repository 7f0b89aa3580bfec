"""Engines run shards: in this process, in several, or on a cluster. All give the same results, in any order."""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from signal import SIG_IGN, SIGINT, signal
from threading import Thread

from lmcells.errors import ConfigError, InputError
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.shards import AnnotationTask, Shard, shared_expander

Engine = Callable[[AnnotationTask, Iterable[Shard], int], Iterator[bytes]]
"""Takes a task, shards and a number of workers; yields what `AnnotationTask.run` returns, as it comes."""

ENGINES = ("local", "ray", "spark")
WAVE_CHARACTERS = 1 << 26  # sent to a cluster at a time: what the driver's memory holds


def find_engine(name: str) -> Engine:
    """Return an engine by its name; MissingExtra says what to install."""
    if name == "local":
        return run_locally
    if name == "ray":
        from lmcells.integrations.ray_engine import run_on_ray

        return run_on_ray
    if name == "spark":
        from lmcells.integrations.spark_engine import run_on_spark

        return run_on_spark
    raise ConfigError(f"engine: found {name!r}, allowed: {', '.join(ENGINES)}.")


def run_locally(task: AnnotationTask, shards: Iterable[Shard], workers: int) -> Iterator[bytes]:
    """Expand shards in this process, or in several that each load the model once."""
    if workers == 1:
        return map(task.run, shards)
    return _run_in_processes(task, shards, workers)


def _run_in_processes(task: AnnotationTask, shards: Iterable[Shard], workers: int) -> Iterator[bytes]:
    # Forking a process that has threads is not safe, so each worker is a fresh interpreter.
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(task.expander,)
    )
    running: set[Future[bytes]] = set()
    try:
        for shard in shards:
            running.add(pool.submit(task.run, shard))
            if len(running) > workers:  # only one shard waits: memory stays bounded
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool:
        raise InputError(
            "a worker was killed, perhaps for lack of memory. Continue with --resume and fewer --workers."
        ) from None
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)


def _start_worker(settings: ExpanderSettings) -> None:
    """Load the model; leave Ctrl-C to the parent, and end with it, however it ends."""
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def end_with_parent() -> None:
            wait_for([sentinel])
            os._exit(1)

        Thread(target=end_with_parent, daemon=True).start()
    shared_expander(settings)


def waves_of(shards: Iterable[Shard], *, max_characters: int = WAVE_CHARACTERS) -> Iterator[list[bytes]]:
    """Yield pickled shards in groups that fit the memory of a cluster's driver."""
    wave: list[bytes] = []
    n_characters = 0
    for shard in shards:
        wave.append(pickle.dumps(shard))
        n_characters += shard.n_characters
        if n_characters >= max_characters:
            yield wave
            wave, n_characters = [], 0
    if wave:
        yield wave


def run_pickled(task: AnnotationTask, pickled: bytes) -> bytes:
    """Expand a shard of `waves_of`."""
    return task.run(pickle.loads(pickled))  # from our own driver
