"""Files of notes -> one file of expansions, by shards: a job that was killed goes on where it stopped.

report = annotate(NoteFiles([Path("notes.csv")]), Path("out.jsonl"), task=AnnotationTask(ExpanderSettings()))

Beside `out.jsonl` stand `out.jsonl.report.json` (exact counts, and what the job was about) and, where rows were broken,
`out.jsonl.rejected.jsonl`. While it runs `out.jsonl.parts/` holds a file a shard, each written whole or not at all.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, get_args

import lmcells
from lmcells.errors import ConfigError, InputError
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.expansion import Source
from lmcells.files import atomic_write, read_json, sha256, write_json
from lmcells.integrations.annotation_shard import SHARD_NOTES, AnnotationTask, Shard, ShardResult, shards_of
from lmcells.integrations.engines import find_engine
from lmcells.integrations.omop import NlpRun
from lmcells.integrations.rows import NoteFiles, RowLayout, check_format, open_rows
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.pretrained.folder import model_folder

# What a job is about: one that was stopped goes on, and one that is done is known to be, only if this is the same.


def make_plan(source: NoteFiles, output: Path, *, task: AnnotationTask, shard_notes: int) -> dict[str, Any]:
    """Describe the notes and the model by the names, sizes and dates of their files, the senses by their content."""
    settings = task.expander
    folder = model_folder(settings.model or None)
    inventory = None if settings.inventory is None else Path(settings.inventory)
    return {
        "version": lmcells.__version__,
        "paths": [str(path) for path in source.paths],
        "inputs": digest(source.files()),
        "format": source.format,
        "columns": [source.columns.text, source.columns.id],
        "model": digest(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else None,
        "inventory": _senses(inventory),
        "sections": settings.sections,
        "threshold": settings.threshold,
        "output": output.suffix.lower(),
        "rows": "annotations" if task.omop is None else f"omop, {task.omop.time or 'dated by the job'}",
        "shard_notes": shard_notes,
    }


def digest(files: Iterable[Path]) -> str:
    """Tell whether any of these files was changed, without reading them."""
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    return hashlib.sha256(repr(states).encode("utf-8", "surrogatepass")).hexdigest()


def _senses(inventory: Path | None) -> str | None:
    if inventory is None:
        return hashlib.sha256(repr(list(shipped_inventory())).encode()).hexdigest()
    return sha256(inventory) if inventory.is_file() else None


# The account of a reading that also remembers every row that gave no note: its file, its line and the reason.


@dataclass(slots=True)
class RejectingReport(ReadReport):
    """Writes each skipped row down as it is met, so that none is lost and none is held in memory."""

    file: TextIO | None = field(default=None, repr=False, kw_only=True)

    def skip(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count a row that gives no note, and write down where it stands."""
        ReadReport.skip(self, reason, line, path=path)
        if self.file is not None:
            self.file.write(rejected_row(reason, line=line, path=path))


def rejected_row(
    reason: str, *, line: int | None = None, path: Path | None = None, note_id: str | None = None
) -> str:
    """Return one line of the side file; never the text."""
    row = {"file": None if path is None else str(path), "line": line, "note_id": note_id, "reason": reason}
    return json.dumps(row) + "\n"


# Files of notes -> one file of expansions, by shards: a job that was killed goes on where it stopped.
#
# report = annotate(NoteFiles([Path("notes.csv")]), Path("out.jsonl"), task=AnnotationTask(ExpanderSettings()))
#
# Beside `out.jsonl` stand `out.jsonl.report.json` (exact counts, and what the job was about) and, where rows were broken,
# `out.jsonl.rejected.jsonl`. While it runs `out.jsonl.parts/` holds a file a shard, each written whole or not at all.


PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    n_notes: int
    n_characters: int


@dataclass(slots=True)
class AnnotationReport:
    """Exact counts: every row seen was read or skipped, every note read was expanded or failed."""

    reading: ReadReport = field(default_factory=ReadReport)
    n_notes: int = 0
    n_expansions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, result: ShardResult) -> None:
        """Count what was found in a shard."""
        self.n_notes += result.n_notes - len(result.failed)
        self.n_expansions += result.n_rows
        self.outcomes.update(result.outcomes)
        self.failed.update(reason for _, reason in result.failed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        sources = get_args(Source)
        return {
            **self.reading.to_dict(),
            "n_annotated": self.n_notes,
            "failed": dict(sorted(self.failed.items())),
            "n_expansions": self.n_expansions,
            "expanded": {name: self.outcomes[name] for name in sources},
            "abstained": {name: n for name, n in sorted(self.outcomes.items()) if name not in sources},
        }


def annotate(
    source: NoteFiles,
    output: Path,
    *,
    task: AnnotationTask,
    engine: str = "local",
    workers: int = 1,
    shard_notes: int = SHARD_NOTES,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Expand all notes into `output` and return the exact counts; a job that is done already is not done again."""
    for name, value in (("workers", workers), ("shard_notes", shard_notes)):
        if value < 1:
            raise ConfigError(f"--{name.replace('_', '-')}: found {value}, allowed: 1 or more.")
    check_format(output)
    _check_place(source, output)
    run = find_engine(engine)
    plan = make_plan(source, output, task=task, shard_notes=shard_notes)
    done = _report_of(output, plan)
    if done is not None and not overwrite:
        return done
    parts = _beside(output, "parts")
    begun = _plan_of(parts) if resume else None
    if begun is None and output.exists() and not overwrite:
        raise InputError(
            f"{output} exists already, and was made from other notes or settings. Choose another --output, or replace "
            "it with --overwrite."
        )
    task.expander.opened()  # what is wrong with the model is said here, once
    try:
        task = _open_parts(parts, plan, begun, task)
        job = _Job(source, parts, on_progress)
        for result in run(task, job.pending(shards_of(job.notes(), n_notes=shard_notes)), workers):
            job.keep(result)
        report = job.finish(output, task.layout)
        write_json(_beside(output, "report.json"), {**report, "plan": plan}, indent=1)
        shutil.rmtree(parts)
    except InputError:
        if not any(parts.glob("part-*")):  # nothing to go on with
            shutil.rmtree(parts, ignore_errors=True)
        raise
    except OSError as error:  # reading has errors of its own
        raise InputError(f"{output} cannot be written: {error.strerror or error}.") from error
    return report


class _Job:
    """Reads the notes, keeps the results by shard, and puts them together."""

    def __init__(self, source: NoteFiles, parts: Path, on_progress: Callable[[Progress], None]) -> None:
        self._source = source
        self._parts = parts
        self._on_progress = on_progress
        self._rejected = parts / "rejected.jsonl"
        self._reading = ReadReport()
        self._n_shards = 0
        self._progress = Progress(0, 0)

    def notes(self) -> Iterator[Note]:
        """Read all notes, and write down what is none."""
        with self._rejected.open("w", encoding="utf-8") as file:
            self._reading = RejectingReport(file=file)
            yield from self._source.read(self._reading)

    def pending(self, shards: Iterator[Shard]) -> Iterator[Shard]:
        """Pass on the shards that are still to be done."""
        for shard in shards:
            self._n_shards += 1
            if self._part(shard.number).exists():
                self._advance(len(shard.notes), sum(len(note.text) for note in shard.notes))
            else:
                yield shard

    def keep(self, result: ShardResult) -> None:
        """Write a result where a job that goes on will find it."""
        with atomic_write(self._part(result.number), durable=True) as path:
            path.write_bytes(result.to_bytes())
        self._advance(result.n_notes, result.n_characters)

    def finish(self, output: Path, layout: RowLayout) -> dict[str, Any]:
        """Put the parts together in the order of the notes; -> the counts."""
        report = AnnotationReport(self._reading)
        with (
            atomic_write(output) as temporary,
            open_rows(temporary, output.suffix.lower(), layout) as write,
            self._rejected.open("a", encoding="utf-8") as rejected,
        ):
            for number in range(self._n_shards):
                result = self._saved(number)
                report.add(result)
                write(result.rows)
                rejected.writelines(
                    rejected_row(reason, note_id=note_id) for note_id, reason in result.failed
                )
            rejected.flush()
            self._keep_rejected(output)
            _check_any(report)
        return {**report.to_dict(), "sha256": sha256(output)}

    def _keep_rejected(self, output: Path) -> None:
        kept = _beside(output, "rejected.jsonl")
        if self._rejected.stat().st_size:
            with atomic_write(kept) as temporary:
                shutil.copyfile(self._rejected, temporary)
        else:
            kept.unlink(missing_ok=True)

    def _saved(self, number: int) -> ShardResult:
        path = self._part(number)
        try:
            return ShardResult.from_bytes(path.read_bytes())
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path} is missing or damaged. Delete it and go on with --resume.") from None

    def _part(self, number: int) -> Path:
        return self._parts / f"part-{number:06}.jsonl"

    def _advance(self, n_notes: int, n_characters: int) -> None:
        so_far = self._progress
        self._progress = Progress(so_far.n_notes + n_notes, so_far.n_characters + n_characters)
        self._on_progress(self._progress)


def _check_any(report: AnnotationReport) -> None:
    if report.n_notes:
        return
    reasons = [*report.reading.skipped.items(), *report.failed.items()]
    listed = "; ".join(f"{reason}: {count:,}" for reason, count in reasons)
    raise InputError(f"no note could be expanded. {listed or 'There is none.'}")


def _open_parts(
    parts: Path, plan: dict[str, Any], begun: dict[str, Any] | None, task: AnnotationTask
) -> AnnotationTask:
    """Go on with what was begun, or start over; -> the task, whose date is that of the beginning."""
    if begun is not None:
        before = begun["plan"]
        if before != plan:
            changed = ", ".join(name for name in plan if before.get(name) != plan[name])
            raise InputError(
                f"--resume: {parts} was begun with other {changed}. "
                "Use the same ones, or leave out --resume to start over."
            )
        return _dated(task, datetime.fromisoformat(begun["time"]))
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    time = datetime.now()  # OMOP's dates are local ones
    write_json(parts / PLAN, {"plan": plan, "time": time.isoformat()})
    return _dated(task, time)


def _dated(task: AnnotationTask, time: datetime) -> AnnotationTask:
    """Give all rows of NOTE_NLP one date, however long the job takes: the user's, or when it began."""
    if task.omop is None or task.omop.time is not None:
        return task
    return replace(task, omop=NlpRun(time))


def _plan_of(parts: Path) -> dict[str, Any] | None:
    try:
        saved = read_json(parts / PLAN)
    except (OSError, ValueError):
        return None
    return saved if isinstance(saved, dict) and "plan" in saved else None


def _report_of(output: Path, plan: dict[str, Any]) -> dict[str, Any] | None:
    """Return the counts of a job that is done: the same plan, and a file that was not changed since."""
    try:
        saved: dict[str, Any] = read_json(_beside(output, "report.json"))
        same = saved.pop("plan") == plan and saved["sha256"] == sha256(output)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return saved if same else None


def _check_place(source: NoteFiles, output: Path) -> None:
    for path in source.paths:
        if path.is_dir() and output.absolute().is_relative_to(path.absolute()):
            raise ConfigError(
                f"--output {output} lies in {path}, whose files are read. Choose another folder."
            )


def _beside(output: Path, what: str) -> Path:
    return output.with_name(f"{output.name}.{what}")
