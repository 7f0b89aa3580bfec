"""The first half of a build: notes -> shards on disk, by as many processes as asked for.

A shard is a folder that is written whole or not at all, and which notes it holds depends on the notes alone. So a
build that was killed goes on where it stopped, and the number of workers changes nothing in the result.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from lmcells.corpus.garbage import collection_paused
from lmcells.corpus.shard import batch_notes, build_shard
from lmcells.notes.note import Note
from lmcells.notes.section_styles import HeaderFinder, header_finder


@dataclass(frozen=True, slots=True)
class Scanned:
    """How far the scan is."""

    n_notes: int
    n_characters: int


@dataclass(frozen=True, slots=True)
class ShardTask:
    """What a worker needs beside the notes; small, and the same for all shards."""

    section_style: str
    header_rules: Path | None
    metadata_kinds: tuple[str, ...]
    stop_words: bool
    spelled_out: float

    def run(self, notes: list[Note], path: Path) -> None:
        """Build one shard and write it."""
        with collection_paused():
            build_shard(
                notes,
                path,
                find_headers=_finder(self),
                metadata_kinds=self.metadata_kinds,
                stop_words=self.stop_words,
                spelled_out=self.spelled_out,
            )


_finders: dict[tuple[str, Path | None], HeaderFinder] = {}


def _finder(task: ShardTask) -> HeaderFinder:
    """Build a finder once a process: the alias table takes longer to read than a shard."""
    key = (task.section_style, task.header_rules)
    if key not in _finders:
        _finders[key] = header_finder(task.section_style, header_rules=task.header_rules)
    return _finders[key]


def scan_notes(
    notes: Iterable[Note],
    folder: Path,
    *,
    task: ShardTask,
    workers: int,
    on_progress: Callable[[Scanned], None],
) -> list[Path]:
    """Write the shards of all notes that are not there yet, and return all of their paths."""
    paths: list[Path] = []
    scanned = Scanned(0, 0)

    def pending() -> Iterator[tuple[list[Note], Path]]:
        nonlocal scanned
        for batch in batch_notes(notes):
            paths.append(folder / f"shard-{len(paths):06}")
            scanned = Scanned(
                scanned.n_notes + len(batch), scanned.n_characters + sum(len(note.text) for note in batch)
            )
            if not paths[-1].exists():
                yield batch, paths[-1]
            on_progress(scanned)

    if workers == 1:
        for batch, path in pending():
            task.run(batch, path)
        return paths
    # A fresh interpreter for each worker: forking one that has threads (a progress display) is not safe.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: deque[Future[None]] = deque()
        try:
            for batch, path in pending():
                running.append(pool.submit(task.run, batch, path))
                if (
                    len(running) > workers
                ):  # one shard waits while the others are worked on: memory stays bounded
                    running.popleft().result()
            for future in running:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return paths
