"""Shards by the handful: a cluster is given as many at a time as the memory of the driver holds."""

import pickle
from collections.abc import Iterable, Iterator

from lmcells.integrations.annotation_shard import AnnotationTask, Shard

WAVE_CHARACTERS = 1 << 26


def waves_of(shards: Iterable[Shard], *, max_characters: int = WAVE_CHARACTERS) -> Iterator[list[bytes]]:
    """Yield shards in groups, packed for the way to the workers."""
    wave: list[bytes] = []
    n_characters = 0
    for shard in shards:
        wave.append(pickle.dumps(shard))
        n_characters += sum(len(note.text) for note in shard.notes)
        if n_characters >= max_characters:
            yield wave
            wave, n_characters = [], 0
    if wave:
        yield wave


def run_packed(task: AnnotationTask, packed: bytes) -> bytes:
    """Expand a shard as it came, into a result for the way back."""
    shard: Shard = pickle.loads(packed)  # from our own driver
    return task.run(shard).to_bytes()
