"""Engines run shards: in this process, in several, or on a cluster. All give the same results, in any order."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lmcells.errors import ConfigError
from lmcells.integrations.shards import AnnotationTask, Shard, shared_expander
from lmcells.processes import run_in_workers

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
    return run_in_workers(task.run, shards, workers, prepare=partial(shared_expander, task.expander))


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
