"""Notes -> a corpus folder, which appears only when it is complete.

Notes become shards on disk, in as many processes as asked for (`shard.py`); then shards become the arrays of a corpus
(`assemble.py`). A shard is written whole or not at all, and which notes it holds depends on the notes alone. So a build
that was killed goes on where it stopped, and the number of workers changes nothing in the result.
"""

import gc
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lmcells.corpus.assemble import assemble
from lmcells.corpus.corpus import FORMAT, Corpus, Manifest
from lmcells.corpus.settings import CorpusSettings, read_excluded_ids
from lmcells.corpus.shard import batch_notes, build_shard
from lmcells.errors import ConfigError, InputError
from lmcells.files import put_in_place, read_json, sha256, write_json
from lmcells.notes.note import Note, given_id
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.processes import run_in_workers

PLAN = "plan.json"
READING = "reading notes"
_EVERY_CORPUS_HAS = ("section", "document", "category")
# The current step, how many notes and characters were read, and which share of the files.
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

    `exclude_ids` names a file of note ids to leave out, or a dataset whose notes are left out. `resume` goes on with a
    build of the same notes and settings that was stopped.
    """
    if workers < 1:
        raise ConfigError(f"workers: found {workers}, allowed: 1 or more.")
    _check_metadata_columns(columns.metadata)
    paths = [Path(inputs)] if isinstance(inputs, str | Path) else [Path(path) for path in inputs]
    output, exclude_ids = Path(output), Path(exclude_ids) if exclude_ids else None
    work = output.with_name(f"{output.name}.building")
    described = settings.to_dict(metadata_columns=columns.metadata)
    plan: dict[str, Any] = {
        "version": FORMAT.version,
        "settings": described,
        "format": format,
        "columns": [columns.text, columns.id, columns.category, *columns.metadata],
        "exclude_ids": sha256(exclude_ids) if exclude_ids and exclude_ids.is_file() else None,
        "inputs": _checksum(stamps := _stamps(paths)),
    }
    # A finished corpus knows its notes by the names and sizes of their files: it is the same wherever they lie.
    digest = _checksum({**plan, "inputs": [(Path(name).name, n_bytes) for name, n_bytes, _ in stamps]})
    if resume and not overwrite and (done := _finished(output, plan=digest)):
        return done
    FORMAT.require_free(output, overwrite=overwrite)
    _open_work_folder(work, plan, resume=resume)
    report = ReadReport()
    read = partial(read_notes, format=format, columns=columns, report=report)
    reading = _Reading((note for path in paths for note in read(path)), report, exclude_ids)
    n_bytes = max(1, sum(stamp[1] for stamp in stamps))

    def on_step(step: str) -> None:
        on_progress(step, reading.n_notes, reading.n_characters, min(1.0, reading.report.n_bytes / n_bytes))

    shards: list[Path] = []

    def pending() -> Iterator[tuple[Path, list[Note]]]:
        """Yield the shards that are not there yet."""
        for batch in batch_notes(reading.notes()):
            shards.append(work / f"shard-{len(shards):06}")
            if not shards[-1].exists():
                yield shards[-1], batch
            on_step(READING)

    kinds = ("category", *columns.metadata)
    folder = work / "corpus"
    with _collection_paused():
        build = partial(build_shard, settings=settings, metadata_kinds=kinds)
        for _ in run_in_workers(build, pending(), workers, prepare=gc.disable):
            pass
        account = reading.finish() | {"plan": digest}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

        sizes, metadata = assemble(shards, folder, settings=settings, metadata_kinds=kinds, on_step=on_step)
    on_step("checksums")
    manifest = Manifest(described, sizes, metadata, account, FORMAT.describe_files(folder))
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


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause garbage collection: many small objects are made, none in a cycle. Saves a seventh of a build's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Reading:
    """Reads all inputs in order, leaves out what is excluded, and keeps account."""

    def __init__(self, notes: Iterator[Note], report: ReadReport, exclude_ids: Path | None) -> None:
        self.n_notes = self.n_characters = 0  # handed on so far
        self.report = report
        self._all_notes = notes
        self._exclude_ids = exclude_ids
        self._excluded = frozenset(map(given_id, read_excluded_ids(exclude_ids) if exclude_ids else ()))
        self._found: set[str] = set()
        self._example_id = ""

    def notes(self) -> Iterator[Note]:
        for note in self._all_notes:
            if given_id(note.id) in self._excluded:
                self._found.add(given_id(note.id))
                continue
            self._example_id = self._example_id or note.id
            self.n_notes += 1
            self.n_characters += len(note.text)
            yield note

    def finish(self) -> dict[str, Any]:
        """Return the account, or refuse what cannot be meant."""
        report = self.report
        if self._excluded and not self._found:
            raise InputError(
                f"none of the {len(self._excluded):,} ids in {self._exclude_ids} is among the "
                f"{report.n_read:,} notes; ids here look like {self._example_id!r}."
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
            "n_excluded_ids_not_found": len(self._excluded) - len(self._found),
        }


def _finished(output: Path, *, plan: str) -> Corpus | None:
    """Return the corpus that is there if it is of the same notes and settings, None if there is none."""
    if not FORMAT.is_format_of(output):
        return None
    corpus = Corpus.open(output)
    if corpus.manifest.report.get("plan") != plan:
        raise InputError(
            f"--resume: {output} is finished, and was made from other notes or settings. Choose another --output, or "
            "replace it with --overwrite."
        )
    return corpus


def _stamps(paths: Sequence[Path]) -> list[list[Any]]:
    """Return the names, sizes and times of all input files."""
    found = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    files = sorted(file for file in found if file.is_file())
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _checksum(plain: Any) -> str:
    return hashlib.sha256(repr(plain).encode("utf-8", "surrogatepass")).hexdigest()


def _open_work_folder(work: Path, plan: dict[str, Any], *, resume: bool) -> None:
    """Go on in the folder of a stopped build if its plan is the same; otherwise start over."""
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
