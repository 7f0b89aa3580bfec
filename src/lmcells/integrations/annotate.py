"""Expanding files of notes into one file of expansions, in a resumable job.

report = annotate(NoteFiles([Path("notes.csv")]), Path("out.jsonl"))

Next to `out.jsonl` are `out.jsonl.report.json` (exact counts, and the plan of the job) and, if rows were skipped,
`out.jsonl.rejected.jsonl`. While the job runs, `out.jsonl.parts/` has one file per shard, each written atomically.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO, get_args

import lmcells
from lmcells.errors import ConfigError, InputError
from lmcells.expansion.expansion import Source
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.settings import ExpanderSettings
from lmcells.files import (
    CONTINUE,
    atomic_write,
    explain_unwritable,
    read_saved,
    sha256,
    work_folder,
    write_json,
)
from lmcells.integrations.omop import NoteNlpOptions
from lmcells.integrations.rows import NoteFiles, check_format, open_rows
from lmcells.integrations.shards import (
    SHARD_NOTES,
    AnnotationTask,
    Engine,
    Shard,
    Task,
    find_engine,
    in_order,
    parse_result,
    shards_of,
    shared_expander,
)
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import STDIN
from lmcells.notes.readers.report import Line, line_number
from lmcells.pretrained.folder import model_folder

_PLAN = "plan.json"

OnProgress = Callable[[int, int, float | None], None]
"""Called with the number of notes and of characters done, and the share of the input, None if that is unknown."""


def annotate(
    notes: NoteFiles,
    output: Path | BinaryIO,
    *,
    expander: ExpanderSettings | None = None,
    omop: NoteNlpOptions | None = None,
    engine: str = "local",
    workers: int = 1,
    shard_notes: int = SHARD_NOTES,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> dict[str, Any]:
    """Expand all notes into one file with a row per expansion, and return exact counts.

    The file is the same to the byte for any engine and number of workers, and after resuming. A job that is
    already done is not done again: its counts are returned.

    The suffix of `output` is its format: `.jsonl`, `.csv` or `.parquet`; a stream gets JSON lines at once.
    `omop` writes rows of OMOP's NOTE_NLP instead of our own. `engine` is `local`, `ray` or `spark`, with so many
    `workers`, each of which loads the model; a shard of `shard_notes` is the unit of work that survives when the job is
    stopped. `overwrite` replaces a file that another job wrote.
    """
    for name, value in {"--workers": workers, "--shard-notes": shard_notes}.items():
        if value < 1:
            raise ConfigError(f"{name}: found {value}, allowed: 1 or more.")
    run, settings = find_engine(engine, workers=workers), expander or ExpanderSettings()
    totals, progress = _Totals(), Progress(notes, on_progress)
    if not isinstance(output, Path):
        shared_expander(settings)
        task, reading = AnnotationTask(settings, _dated(omop, datetime.now())), ReadReport()
        shards = shards_of(notes.read(reading), n_notes=shard_notes)
        with open_rows(output, ".jsonl", task.layout) as write:
            for counts, rows in in_order(run(task, shards)):
                write(rows)
                output.flush()
                totals.add(counts)
                progress.advance(counts["n_notes"], counts["n_characters"], reading)
        return totals.report(reading)  # skipped rows are counted, but not listed
    check_format(output)
    if overwrite and output.is_dir():
        raise ConfigError(f"--output {output} is a folder. Choose another name.")
    if STDIN in notes.paths and resume:
        raise ConfigError("--resume: standard input cannot be read again. Save the notes to a file first.")
    job = ShardJob(notes, output, settings, rows=_rows_plan(omop), shard_notes=shard_notes, resume=resume)
    done = job.report_in(beside(output, "report.json"))
    if done and not overwrite and output.is_file() and done.get("sha256") == sha256(output):
        return done
    job.require_free(job.existing(), overwrite=overwrite)
    shared_expander(settings)  # report what is wrong with the model here, once
    with job.open_parts() as began, (job.parts / "rejected.jsonl").open("w+", encoding="utf-8") as rejected:
        task, reading = AnnotationTask(settings, _dated(omop, began)), _RejectingReport(file=rejected)
        job.run(task, run, reading, progress)
        with (
            atomic_write(output) as temporary,
            open_rows(temporary, output.suffix.lower(), task.layout) as write,
        ):
            for counts, rows in job.results():
                write(rows)
                totals.add(counts)
                for note_id, reason in counts["failed"]:
                    rejected.write(_rejected_row(reason, note_id=note_id))
            _keep(rejected, beside(output, "rejected.jsonl"))
            report = totals.report(reading)
        report["sha256"] = sha256(output)
        write_json(beside(output, "report.json"), {**report, "plan": job.plan}, indent=1)
    return report


def _dated(omop: NoteNlpOptions | None, time: datetime) -> NoteNlpOptions | None:
    return omop and replace(omop, time=omop.time or time)


def _rows_plan(omop: NoteNlpOptions | None) -> dict[str, Any]:
    if omop is None:
        return {"--output-format": "rows"}
    return {
        "--output-format": "omop",
        "--first-id": omop.first_id,
        "--no-abstained": not omop.with_abstained,
        "--section-concepts": [list(each) for each in omop.section_concepts],
        "--nlp-date": omop.time and omop.time.isoformat(),
    }


class _Totals:
    """Adds up the counts of shards."""

    def __init__(self) -> None:
        self.n_notes = self.n_rows = 0
        self.outcomes: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def add(self, counts: dict[str, Any]) -> None:
        self.n_notes += counts["n_notes"] - len(counts["failed"])
        self.n_rows += counts["n_rows"]
        self.outcomes.update(counts["outcomes"])
        self.failed.update(reason for _, reason in counts["failed"])

    def report(self, reading: ReadReport) -> dict[str, Any]:
        """Return all counts; refuses input without a usable row. A file without rows is fine."""
        if not self.n_notes and (reading.n_seen or self.failed):
            reasons = {**reading.skipped, **self.failed}
            listed = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.items())
            raise InputError(
                f"no note could be expanded ({listed}). Check the format and the columns of the notes."
            )
        sources = get_args(Source)
        return {
            **reading.to_dict(),
            "n_annotated": self.n_notes,
            "failed": dict(sorted(self.failed.items())),
            "n_expansions": self.n_rows,
            "expanded": {name: self.outcomes[name] for name in sources},
            "abstained": {name: n for name, n in sorted(self.outcomes.items()) if name not in sources},
        }


@dataclass(slots=True)
class _RejectingReport(ReadReport):
    """Writes skipped rows to a file at once, so that none is lost and none is held in memory."""

    file: TextIO = field(repr=False, kw_only=True)

    def skip(self, reason: str, line: Line | None = None, *, path: Path | None = None) -> None:
        number = line_number(line)
        ReadReport.skip(self, reason, number, path=path)
        self.file.write(_rejected_row(reason, line=number, path=path))


def _rejected_row(
    reason: str, *, line: int | None = None, path: Path | None = None, note_id: str | None = None
) -> str:
    row = {"file": None if path is None else str(path), "line": line, "note_id": note_id, "reason": reason}
    return json.dumps(row) + "\n"


def _keep(rejected: TextIO, path: Path) -> None:
    """Copy the rejected rows to their final file, if there are any."""
    if not rejected.tell():
        path.unlink(missing_ok=True)
        return
    rejected.seek(0)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as copy:
        shutil.copyfileobj(rejected, copy)


class Progress:
    """Reports the progress of a job, by the bytes read of its files."""

    def __init__(self, notes: NoteFiles, on_progress: OnProgress) -> None:
        self._n_bytes = 0 if STDIN in notes.paths else sum(file.stat().st_size for file in notes.files())
        self._on_progress = on_progress
        self._n_notes = self._n_characters = 0

    def advance(self, n_notes: int, n_characters: int, reading: ReadReport) -> None:
        self._n_notes += n_notes
        self._n_characters += n_characters
        share = min(1.0, reading.n_bytes / self._n_bytes) if self._n_bytes else None
        self._on_progress(self._n_notes, self._n_characters, share)


class ShardJob:
    """A job whose results are kept by shard, in the folder `parts`, until it is done.

    A job with the same `plan` can be resumed, and is not repeated once it is done. In a plan, notes and model are
    identified by the names, sizes and dates of their files, senses by their content. Its keys tell the user
    what has changed; `rows` has those of the options that decide what is written.
    """

    def __init__(
        self,
        notes: NoteFiles,
        output: Path,
        settings: ExpanderSettings,
        *,
        rows: Mapping[str, Any],
        shard_notes: int,
        resume: bool,
    ) -> None:
        for path in notes.paths:
            if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
                inside = f"--output {output} is inside {path}, which is an input"
                raise ConfigError(f"{inside}. Choose another folder.")
        self._notes, self._output, self._n_notes = notes, output, shard_notes
        self._n_shards = 0
        self.parts = beside(output, "parts")
        if pipe := next((file for file in settings.files if file.is_fifo()), None):
            raise ConfigError(f"{pipe} is a pipe, which can be read only once. Save it to a file first.")
        folder = model_folder(settings.model or None)
        weights = [file for file in folder.rglob("*") if file.is_file()]
        senses = [sha256(file) if file.is_file() else None for file in settings.files]
        if settings.only_inventory is None:
            senses.append(hashlib.sha256(repr(list(shipped_inventory())).encode()).hexdigest())
        self.plan: dict[str, Any] = {
            "version of lmcells": lmcells.__version__,
            "notes": [*(str(path) for path in notes.paths), _digest(notes.files())],
            "--format": notes.format,
            "columns or encoding": [str(each) for each in astuple(notes.columns)],
            "model": _digest(weights) if folder.is_dir() else None,
            "inventory or header rules": senses,
            "--sections": settings.sections,
            "--threshold": settings.threshold,
            "--no-letters": not settings.letters,
            "--codes": settings.codes,
            "suffix of --output": output.suffix.lower(),
            "--shard-notes": shard_notes,
            **rows,
        }
        saved = read_saved(self.parts / _PLAN) if resume else {}
        self.begun = saved if "plan" in saved else None  # the job that is resumed: its plan and its time

    def existing(self) -> Path | None:
        """Return a file that a new job would replace: the output, or one beside it that no job of ours has left."""
        beside_it = [beside(self._output, what) for what in ("report.json", "rejected.jsonl")]
        replaced = [self._output, *(() if self.has_left(beside_it[0]) else beside_it)]
        return next((path for path in replaced if path.exists()), None)

    def has_left(self, report: Path) -> bool:
        """Whether a job of ours, perhaps another one, has left its report or its parts."""
        return any("plan" in read_saved(path) for path in (report, self.parts / _PLAN))

    def require_free(self, existing: Path | None, *, overwrite: bool) -> None:
        """Refuse to replace an output, unless asked to or when continuing a job."""
        if existing and self.begun is None and not overwrite:
            raise InputError(
                f"{existing} already exists, and was made from other notes or settings. Choose another --output, or "
                "replace it with --overwrite."
            )

    def report_in(self, path: Path) -> dict[str, Any] | None:
        """Return the counts of a finished job, if its plan is the same."""
        saved = read_saved(path)
        return saved if saved.pop("plan", None) == self.plan else None

    @contextmanager
    def open_parts(self) -> Iterator[datetime]:
        """Continue an interrupted job, or start over; yields its start time. The parts are removed at the end."""
        with (
            explain_unwritable(self._output, advice=CONTINUE),
            work_folder(self.parts, _PLAN, keep=self.begun is not None),
        ):
            try:
                yield self._begin()
                shutil.rmtree(self.parts)
            finally:
                if self.parts.is_dir() and not any(self.parts.glob("part-*")):  # nothing to resume
                    shutil.rmtree(self.parts, ignore_errors=True)

    def _begin(self) -> datetime:
        if self.begun is None:
            self.begun = {"plan": self.plan, "time": datetime.now().isoformat()}  # OMOP's dates are local
            write_json(self.parts / _PLAN, self.begun)
        before = self.begun["plan"]
        if before != self.plan:
            changed = ", ".join(name for name in self.plan if before.get(name) != self.plan[name])
            raise InputError(
                f"--resume: since {self.parts} was started, this has changed: {changed}. "
                "Use what was used then, or leave out --resume to start over."
            )
        return datetime.fromisoformat(self.begun["time"])

    def run(self, task: Task, run: Engine, reading: ReadReport, progress: Progress) -> None:
        """Read all notes, and do the work for all shards that are not done yet."""

        def shards_left() -> Iterator[Shard]:
            for shard in shards_of(self._notes.read(reading), n_notes=self._n_notes):
                self._n_shards += 1
                if self._part(shard.number).exists():
                    progress.advance(len(shard.notes), shard.n_characters, reading)
                else:
                    yield shard

        for result in run(task, shards_left()):
            counts, _ = parse_result(result)
            with atomic_write(self._part(counts["number"]), durable=True) as path:
                path.write_bytes(result)
            progress.advance(counts["n_notes"], counts["n_characters"], reading)

    def results(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the counts and the rows of each shard, in the order of the notes."""
        for path in map(self._part, range(self._n_shards)):
            try:
                yield parse_result(path.read_bytes())
            except (OSError, ValueError, KeyError, TypeError):
                again = "Delete it and continue with --resume."
                raise InputError(f"{path} is missing or damaged. {again}") from None

    def _part(self, number: int) -> Path:
        return self.parts / f"part-{number:06}.jsonl"


def _digest(files: Iterable[Path]) -> str:
    """Return a checksum of the names, sizes and dates of files."""
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    return hashlib.sha256(repr(states).encode("utf-8", "surrogatepass")).hexdigest()


def beside(output: Path, what: str) -> Path:
    """Return a path next to an output, such as out.jsonl.parts."""
    return output.with_name(f"{output.name}.{what}")
