"""Building a corpus folder from notes; the folder appears only when it is complete.

Worker processes turn notes into shards on disk (`shard.py`), each reading its own files or parts of files; then the
shards become the arrays of a corpus (`assemble.py`). Shards are written atomically, and their notes depend only on the
input. So a killed build can be resumed, and the number of workers does not change the result.
"""

import ctypes
import gc
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmcells.corpus.assemble import assemble
from lmcells.corpus.corpus import FORMAT, Corpus, Manifest
from lmcells.corpus.settings import CorpusSettings, read_excluded_ids
from lmcells.corpus.shard import SHARD_VERSION, Shard, batch_notes, build_shard
from lmcells.corpus.statistics import write_section_statistics
from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.files import put_in_place, read_json, sha256, work_folder, write_json
from lmcells.notes.note import Note, given_id
from lmcells.notes.readers import Columns, ListedFile, ReadReport, cut_notes, opening, read_listed
from lmcells.processes import worker_pool

PLAN = "plan.json"
READING = "reading notes"
_READ_BY_WORKER = 64 << 20  # bytes of the largest uncut file that a worker reads itself
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_EVERY_CORPUS_HAS = ("section", "document", "category")
# The current step, the number of notes and characters read, and the share of the files.
OnProgress = Callable[[str, int, int, float], None]


def build_corpus(
    inputs: str | Path | Sequence[str | Path],
    *,
    output: str | Path,
    settings: CorpusSettings = CorpusSettings(),  # noqa: B008 - immutable
    format: str = "auto",  # noqa: A002 - the command line's word
    columns: Columns = Columns(),  # noqa: B008
    exclude_ids: str | Path | None = None,
    workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Corpus:
    """Read notes from files or folders and write a corpus folder.

    corpus = build_corpus("notes/", output="corpus", settings=CorpusSettings(min_count=5), workers=8)
    corpus.manifest.report  # how many notes were read, excluded and skipped, and why

    `exclude_ids` is a file of note ids to leave out, or a dataset whose notes are left out. `resume` continues an
    interrupted build of the same notes and settings.
    """
    if workers < 1:
        raise ConfigError(f"workers: found {workers}, allowed: 1 or more.")
    _check_metadata_columns(columns.metadata)
    paths = [Path(inputs)] if isinstance(inputs, str | Path) else [Path(path) for path in inputs]
    output, exclude_ids = Path(output), Path(exclude_ids) if exclude_ids else None
    work = output.with_name(f"{output.name}.building")
    checksum = sha256(exclude_ids) if exclude_ids and exclude_ids.is_file() else None
    described = settings.to_dict(metadata_columns=columns.metadata)
    plan: dict[str, Any] = {
        "version": FORMAT.version,
        "settings": described,
        "format": format,
        "columns": [columns.text, columns.id, columns.category, *columns.metadata],
        "exclude_ids": checksum,
        "inputs": _checksum(stamps := _stamps(paths)),
    }
    # By file names and sizes only: a finished corpus stays valid if its notes are moved.
    digest = _checksum({**plan, "inputs": [(Path(name).name, n_bytes) for name, n_bytes, _ in stamps]})
    if resume and not overwrite and (done := _finished(output, plan=digest)):
        return done
    FORMAT.require_free(output, overwrite=overwrite)
    begun = {**plan, "part_bytes": opening.PART_BYTES, "shards": SHARD_VERSION}
    with work_folder(work, PLAN, keep=resume and _is_begun(work, begun)):
        write_json(work / PLAN, begun)
        kinds = ("category", *columns.metadata)
        job = _Job(work, settings, kinds, format, columns, exclude_ids, checksum)
        tally = _Tally()
        n_bytes = max(1, sum(stamp[1] for stamp in stamps))

        def on_step(step: str) -> None:
            read = min(1.0, tally.report.n_bytes / n_bytes)
            on_progress(step, tally.n_notes, tally.n_characters, read)

        folder = work / "corpus"
        with _collection_paused(), worker_pool(workers, prepare=_prepare_worker) as run:
            for later in _in_order(run(job.run, job.tasks(paths, workers=workers, n_bytes=n_bytes))):
                tally.merge(later)
                on_step(READING)
            report = tally.describe(exclude_ids, job.excluded_ids) | {"plan": digest}
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            sizes, metadata = assemble(
                tally.shards,
                folder,
                headers=tally.headers,
                values=tally.values,
                settings=settings,
                run=run,
                workers=workers,
                on_step=on_step,
            )
        on_step("counting words by section")
        manifest = Manifest(described, sizes, metadata, report, files={})
        write_section_statistics(Corpus(folder, manifest))
        on_step("checksums")
        manifest = replace(manifest, files=FORMAT.describe_files(folder))
        FORMAT.write_index(folder, manifest.to_dict())
        put_in_place(folder, output)
        shutil.rmtree(work)
        return Corpus(output, manifest)


def _check_metadata_columns(names: Sequence[str]) -> None:
    for name in names:
        if name in _EVERY_CORPUS_HAS or not name.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(
                f"metadata column: found {name!r}, allowed: letters, digits, '_' and '-', and not "
                f"{', '.join(_EVERY_CORPUS_HAS)}, which every corpus has. Rename the column."
            )


def _prepare_worker() -> None:
    """Pause garbage collection, and keep freed memory: the next shard needs as much again."""
    gc.disable()
    with suppress(AttributeError, OSError, TypeError):  # only glibc can be told so
        tell = ctypes.CDLL(None).mallopt
        tell(_M_MMAP_THRESHOLD, 32 << 20)
        tell(_M_TRIM_THRESHOLD, 256 << 20)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause garbage collection, which saves a seventh of the time: there are many small objects, none in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True)
class _Tally:
    """What was read, and the shards made of it."""

    report: ReadReport = field(default_factory=ReadReport)
    n_notes: int = 0  # without excluded ones
    n_characters: int = 0
    example_id: str = ""
    excluded: set[str] = field(default_factory=set)  # ids that were found
    shards: list[Path] = field(default_factory=list)
    headers: Counter[tuple[str, str]] = field(default_factory=Counter)  # as written, and canonical names
    values: dict[str, Counter[str]] = field(default_factory=dict)  # of each kind of metadata
    number: int = 0  # of its task
    error: InputError | None = None

    def add_shard(self, path: Path, kinds: Sequence[str]) -> None:
        shard = Shard(path)
        self.shards.append(path)
        self.headers.update(shard.count_headers())
        for kind in kinds:
            names, of_document = shard.document_metadata(kind)
            counts = np.bincount(of_document, minlength=len(names)).tolist()
            self.values.setdefault(kind, Counter()).update(dict(zip(names, counts, strict=True)))

    def split_off(self, number: int) -> "_Tally":
        """Return what was read so far, before any shard was made, and start over."""
        part = replace(self, report=self.report.split_off(), number=number)
        self.n_notes = self.n_characters = 0
        self.excluded = set()
        return part

    def merge(self, later: "_Tally") -> None:
        """Add the tally of the next task; raise its error if it failed."""
        if later.error is not None:
            raise later.error
        self.report.merge(later.report)
        self.n_notes += later.n_notes
        self.n_characters += later.n_characters
        self.example_id = self.example_id or later.example_id
        self.excluded |= later.excluded
        self.shards += later.shards
        self.headers.update(later.headers)  # `+=` would go through all headers so far
        for kind, values in later.values.items():
            self.values.setdefault(kind, Counter()).update(values)

    def describe(self, exclude_ids: Path | None, excluded: Collection[str]) -> dict[str, Any]:
        """Return the tally for the manifest; refuses an exclude list that matches nothing, and an empty corpus."""
        report = self.report
        if excluded and not self.excluded:
            raise InputError(
                f"none of the {len(excluded):,} ids in {exclude_ids} is among the "
                f"{report.n_read:,} notes; ids here look like {self.example_id!r}."
            )
        n_excluded = report.n_read - self.n_notes
        if not self.n_notes:
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in report.skipped.items())
            raise InputError(
                f"no note is left: {report.n_read:,} read, {n_excluded:,} excluded, "
                f"{report.n_skipped:,} skipped. {reasons}".strip()
            )
        return {
            **report.to_dict(),
            "n_excluded": n_excluded,
            "n_excluded_ids_not_found": len(excluded) - len(self.excluded),
        }


@lru_cache(maxsize=1)
def _read_excluded(path: Path, _checksum: str | None) -> frozenset[str]:
    return frozenset(map(given_id, read_excluded_ids(path)))


class _Task(NamedTuple):
    """Files, or a part of one, that a worker reads and turns into shards; or notes that have already been read."""

    tally: _Tally  # so far
    group: int = 0  # in the names of the shards
    files: tuple[ListedFile, ...] = ()
    batches: tuple[tuple[Path, list[Note]], ...] = ()  # a shard's path and notes each


@dataclass(frozen=True, slots=True)
class _Job:
    """Turning notes into shards, here or in a worker."""

    work: Path
    settings: CorpusSettings
    kinds: tuple[str, ...]
    format: str
    columns: Columns
    exclude_ids: Path | None
    exclude_checksum: str | None

    @property
    def excluded_ids(self) -> frozenset[str]:
        return _read_excluded(self.exclude_ids, self.exclude_checksum) if self.exclude_ids else frozenset()

    def tasks(self, paths: Sequence[Path], *, workers: int, n_bytes: int) -> Iterator[_Task]:
        """Yield the work in order.

        A large file that cannot be cut is read here, and workers only make its shards, unless there are enough such
        files for each worker to read its own. The shards are the same either way.
        """
        self.excluded_ids  # noqa: B018 - refuses a bad list before any work
        number = count()
        for group, files in enumerate(cut_notes(paths, format=self.format, columns=self.columns)):
            tally = _Tally(ReadReport.of_part())
            is_whole = files[0].part is None and len(files) == 1
            size = _size(files[0].path) if is_whole else 0
            if workers > 1 and size > min(max(n_bytes // workers, opening.PART_BYTES), _READ_BY_WORKER):
                for batch in self._batches(group, files, tally):
                    yield _Task(tally.split_off(next(number)), batches=(batch,))
                yield _Task(tally.split_off(next(number)))  # the rows after the last note
            else:
                tally.number = next(number)
                yield _Task(tally, group, files)

    def run(self, task: _Task) -> _Tally:
        """Make the shards of a task that do not exist yet, and return its tally."""
        tally = task.tally
        try:
            for path, notes in task.batches or self._batches(task.group, task.files, tally):
                if not path.exists():
                    build_shard((path, notes), settings=self.settings, metadata_kinds=self.kinds)
                tally.add_shard(path, self.kinds)
        except InputError as error:  # some subclasses cannot be pickled
            tally.error = (FormatError if isinstance(error, FormatError) else InputError)(str(error))
        return tally

    def _batches(
        self, group: int, files: Sequence[ListedFile], tally: _Tally
    ) -> Iterator[tuple[Path, list[Note]]]:
        for number, notes in enumerate(batch_notes(self._notes(files, tally))):
            yield self.work / f"shard-{group:06}-{number:04}", notes

    def _notes(self, files: Sequence[ListedFile], tally: _Tally) -> Iterator[Note]:
        excluded = self.excluded_ids
        for listed in files:
            for note in read_listed(listed, format=self.format, columns=self.columns, report=tally.report):
                if excluded and given_id(note.id) in excluded:
                    tally.excluded.add(given_id(note.id))
                    continue
                tally.example_id = tally.example_id or note.id
                tally.n_notes += 1
                tally.n_characters += len(note.text)
                yield note


def _size(path: Path) -> float:
    return float("inf") if path == opening.STDIN else path.stat().st_size


def _in_order(tallies: Iterable[_Tally]) -> Iterator[_Tally]:
    """Yield the tallies, which arrive as tasks finish, in the order of the notes."""
    waiting: dict[int, _Tally] = {}
    number = 0
    for tally in tallies:
        waiting[tally.number] = tally
        while number in waiting:
            yield waiting.pop(number)
            number += 1


def _finished(output: Path, *, plan: str) -> Corpus | None:
    """Return an existing corpus of the same notes and settings; None if there is no corpus."""
    if not FORMAT.is_format_of(output):
        return None
    corpus = Corpus.open(output)
    if corpus.manifest.report.get("plan") != plan:
        raise InputError(
            f"--resume: {output} is already complete, from other notes or settings. Choose another --output, or "
            "replace it with --overwrite."
        )
    return corpus


def _stamps(paths: Sequence[Path]) -> list[list[Any]]:
    """Return the names, sizes and modification times of all input files."""
    found = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    files = sorted(file for file in found if file.is_file())
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _checksum(plain: Any) -> str:
    return hashlib.sha256(repr(plain).encode("utf-8", "surrogatepass")).hexdigest()


def _is_begun(work: Path, plan: dict[str, Any]) -> bool:
    """Whether a folder has a build with this plan; refuses to continue one with another."""
    try:
        before = read_json(work / PLAN)
    except (OSError, ValueError, RecursionError):
        return False
    if isinstance(before, dict) and before != plan:
        changed = ", ".join(name for name in plan if before.get(name) != plan[name])
        raise InputError(
            f"--resume: {work} was started with other {changed}. "
            "Use the same ones, or leave out --resume to start over."
        )
    return bool(before == plan)
