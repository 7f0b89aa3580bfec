"""Notes -> a corpus folder, which appears only when it is complete."""

import gc
import hashlib
import shutil
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.corpus import layout
from lmcells.corpus.assemble import assemble
from lmcells.corpus.settings import CorpusSettings, read_excluded_ids
from lmcells.corpus.shard import batch_notes, build_shard
from lmcells.errors import InputError
from lmcells.files import read_json, sha256, write_json
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.section_styles import HeaderFinder, header_finder

# Garbage collection, paused where many small objects are made and none of them is in a cycle.


@contextmanager
def collection_paused() -> Iterator[None]:
    """Spare the objects of a shard being looked at over and over: a seventh of a build's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# The first half of a build: notes -> shards on disk, by as many processes as asked for.
#
# A shard is a folder that is written whole or not at all, and which notes it holds depends on the notes alone. So a
# build that was killed goes on where it stopped, and the number of workers changes nothing in the result.


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


# Notes -> a corpus folder, which appears only when it is complete.


PLAN = "plan.json"


@dataclass(frozen=True, kw_only=True)
class NoteSource:
    """Which notes to read: files or folders, their format and columns, and the ids to leave out."""

    paths: Sequence[Path]
    format: str = "auto"
    columns: Columns = field(default_factory=Columns)
    exclude_ids: Path | None = None
    header_rules: Path | None = None


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """Tells whoever watches a build how it goes; every method may be replaced."""

    on_notes: Callable[[Scanned], None] = lambda _: None
    on_step: Callable[[str], None] = lambda _: None


def build_corpus(
    source: NoteSource,
    output: Path,
    *,
    settings: CorpusSettings,
    workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: BuildProgress = BuildProgress(),  # noqa: B008 - immutable
) -> layout.Manifest:
    """Read all notes and write a corpus folder. Its manifest tells what was read, left out and skipped."""
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists already. Choose another --output, or replace it with --overwrite.")
    work = output.with_name(f"{output.name}.building")
    _open_work_folder(work, _plan(source, settings), resume=resume)
    reading = _Reading(source)
    task = ShardTask(
        settings.sections,
        source.header_rules,
        settings.metadata_kinds,
        stop_words=settings.stop_words,
        spelled_out=settings.spelled_out,
    )
    with collection_paused():
        shards = scan_notes(reading.notes(), work, task=task, workers=workers, on_progress=progress.on_notes)
    report = reading.finish()

    corpus = work / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir()
    with collection_paused():
        sizes, metadata = assemble(shards, corpus, settings=settings, on_step=progress.on_step)
    if not sizes["n_words"]:
        raise InputError(
            f"no word is seen more than {settings.min_count} times in {sizes['n_documents']:,} notes. "
            "Give more notes, or a lower --min-count."
        )
    progress.on_step("checksums")
    manifest = layout.Manifest(
        settings.to_dict(), sizes, metadata, report, layout.FORMAT.describe_files(corpus)
    )
    layout.FORMAT.write_index(corpus, manifest.to_dict())
    _put_in_place(corpus, output, work)
    return manifest


class _Reading:
    """Reads all inputs in order, leaves out what is excluded, and keeps account."""

    def __init__(self, source: NoteSource) -> None:
        self._source = source
        self._report = ReadReport()
        self._excluded = read_excluded_ids(source.exclude_ids) if source.exclude_ids else frozenset()
        self._found: set[str] = set()
        self._n_excluded = 0
        self._id_hashes = array("Q")
        self._example_id = ""

    def notes(self) -> Iterator[Note]:
        for note in self._read_all():
            if note.id in self._excluded:
                self._n_excluded += 1
                self._found.add(note.id)
            else:
                digest = hashlib.blake2b(note.id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                self._id_hashes.append(int.from_bytes(digest))
                self._example_id = self._example_id or note.id
                yield note

    def _read_all(self) -> Iterable[Note]:
        source = self._source
        for path in source.paths:
            yield from read_notes(path, format=source.format, columns=source.columns, report=self._report)

    def finish(self) -> dict[str, Any]:
        """Return the account, or refuse what cannot be meant."""
        if self._excluded and not self._found:
            raise InputError(
                f"none of the {len(self._excluded):,} ids in {self._source.exclude_ids} is among the "
                f"{self._report.n_read:,} notes; ids here look like {self._example_id!r}."
            )
        if not self._id_hashes:
            raise InputError(
                f"no note is left: {self._report.n_read:,} read, {self._n_excluded:,} excluded, "
                f"{self._report.n_skipped:,} skipped. {_reasons(self._report)}".strip()
            )
        n_unique = np.unique(np.frombuffer(self._id_hashes, np.uint64)).size
        return {
            **self._report.to_dict(),
            "n_excluded": self._n_excluded,
            "n_excluded_ids_not_found": len(self._excluded) - len(self._found),
            "n_repeated_ids": len(self._id_hashes) - n_unique,
        }


def _reasons(report: ReadReport) -> str:
    return "; ".join(f"{reason}: {count:,}" for reason, count in report.skipped.items())


def _plan(source: NoteSource, settings: CorpusSettings) -> dict[str, Any]:
    """What a build is about: an unfinished one goes on only if this is the same."""
    files = sorted(
        file
        for path in source.paths
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.is_file()
    )
    sizes = [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    return {
        "version": layout.FORMAT.version,
        "settings": settings.to_dict() | {"metadata_columns": list(settings.metadata_columns)},
        "format": source.format,
        "columns": [
            source.columns.text,
            source.columns.id,
            source.columns.category,
            *source.columns.metadata,
        ],
        "exclude_ids": sha256(source.exclude_ids)
        if source.exclude_ids and source.exclude_ids.is_file()
        else None,
        "inputs": hashlib.sha256(repr(sizes).encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _open_work_folder(work: Path, plan: dict[str, Any], *, resume: bool) -> None:
    if work.exists() and resume:
        try:
            before = read_json(work / PLAN)
        except (OSError, ValueError):
            before = None
        if before == plan:
            return
        if before is not None:
            changed = ", ".join(name for name in plan if before.get(name) != plan[name])
            raise InputError(
                f"--resume: {work} was begun with other {changed}. "
                "Use the same ones, or leave out --resume to start over."
            )
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    write_json(work / PLAN, plan)


def _put_in_place(corpus: Path, output: Path, work: Path) -> None:
    if output.exists():
        replaced = work / "replaced"
        output.rename(replaced)
    corpus.rename(output)
    shutil.rmtree(work)
