"""Shards of a few hundred notes, and the engines that distribute them to workers.

The last digits of a probability depend on which notes are ranked together, and on how many threads multiply matrices.
So a shard is one batch, determined only by the notes and ranked by one thread: neither the engine nor the number of
workers or threads changes a byte of the result.
"""

import ctypes
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.corpus.shard import batch_notes
from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations import omop, rows
from lmcells.notes.note import Note
from lmcells.processes import run_in_workers

SHARD_NOTES = 512
SHARD_CHARACTERS = 1 << 22  # bounds memory where notes are long
ENGINES = ("local", "ray", "spark")
WAVE_CHARACTERS = 1 << 26  # sent to a cluster at a time, to fit the driver's memory


@lru_cache(maxsize=2)
def shared_expander(settings: ExpanderSettings) -> Expander:
    """Return this process's expander with these settings, loaded on first use."""
    return settings.open()


@dataclass(frozen=True, slots=True)
class Shard:
    """Notes, and the number of their shard."""

    number: int
    notes: Sequence[Note]

    @property
    def n_characters(self) -> int:
        return sum(len(note.text) for note in self.notes)


def parse_result(result: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the counts and the rows of what `Task.run` returned; ValueError if it is damaged."""
    counts, _, rows = result.partition(b"\n")
    parsed: dict[str, Any] = json.loads(counts)
    if rows.count(b"\n") != parsed["n_rows"]:
        raise ValueError("rows are missing")
    return parsed, rows


def in_order(results: Iterable[bytes]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the counts and the rows of results in the order of their shards."""
    waiting: dict[int, tuple[dict[str, Any], bytes]] = {}
    next_number = 0
    for result in map(parse_result, results):
        waiting[result[0]["number"]] = result
        while next_number in waiting:
            yield waiting.pop(next_number)
            next_number += 1


def shards_of(notes: Iterable[Note], *, n_notes: int = SHARD_NOTES) -> Iterator[Shard]:
    """Group notes into shards, determined only by the notes."""
    batches = batch_notes(notes, max_characters=SHARD_CHARACTERS, max_notes=n_notes)
    return (Shard(number, batch) for number, batch in enumerate(batches))


@dataclass(frozen=True, slots=True)
class Task:
    """The work of a worker: expand each shard with these settings, and turn the expansions into rows."""

    expander: ExpanderSettings

    def refuse(self, note: Note) -> str | None:  # noqa: ARG002 - most tasks take every note
        """Return why a note cannot be used, if so."""
        return None

    def rows(self, expanded: Sequence[tuple[Note, Sequence[Expansion]]]) -> Iterable[Any]:
        raise NotImplementedError

    def run(self, shard: Shard) -> bytes:
        """Expand the notes of a shard with this process's expander; -> a line of exact counts, then the rows, as JSON.

        `failed` has note ids with reasons, `outcomes` counts expansions by source or reason for abstaining.
        """
        checked = [(note, self.refuse(note)) for note in shard.notes]
        failed = [(note.id, reason) for note, reason in checked if reason]
        notes = [note for note, reason in checked if not reason]
        with one_thread():
            found = list(zip(notes, expand_notes(shared_expander(self.expander), notes), strict=True))
        failed += [(note.id, reason) for note, reason in found if isinstance(reason, str)]
        expanded = [(note, expansions) for note, expansions in found if not isinstance(expansions, str)]
        outcomes = Counter(each.abstained or each.source for _, expansions in expanded for each in expansions)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows(expanded)]
        counts = {
            "number": shard.number,
            "n_notes": len(shard.notes),
            "n_characters": shard.n_characters,
            "n_rows": len(lines),
            "outcomes": dict(sorted(outcomes.items())),
            "failed": failed,
        }
        return "".join([json.dumps(counts), "\n", *lines]).encode()


@dataclass(frozen=True, slots=True)
class AnnotationTask(Task):
    """Expansions become our rows or, with the options of `note_nlp`, those of OMOP's NOTE_NLP."""

    note_nlp: omop.NoteNlpOptions | None = None

    @property
    def layout(self) -> rows.RowLayout:
        return rows.LAYOUT if self.note_nlp is None else self.note_nlp.layout

    def refuse(self, note: Note) -> str | None:
        """OMOP needs numbers as note ids."""
        is_usable = self.note_nlp is None or omop.note_number(note) is not None
        return None if is_usable else omop.NO_NUMBER

    def rows(self, expanded: Sequence[tuple[Note, Sequence[Expansion]]]) -> Iterator[dict[str, Any]]:
        for note, expansions in expanded:
            if self.note_nlp is None:
                yield from (rows.annotation_row(note, expansion) for expansion in expansions)
            else:
                yield from self.note_nlp.rows(note, expansions)


@contextmanager
def one_thread() -> Iterator[None]:
    """Make numpy multiply matrices in one thread: with several, the last digits depend on how work is split."""
    before = [get() for get, _ in _blas_threads()]
    for _, set_ in _blas_threads():
        set_(1)
    try:
        yield
    finally:
        for (_, set_), n_threads in zip(_blas_threads(), before, strict=True):
            set_(n_threads)


_BLAS = re.compile(r"blas|mkl_rt|blis", re.IGNORECASE)
_COUNTERS = (  # functions of BLAS libraries that get and set their number of threads
    *(f"{prefix}openblas_%s_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")),
    "MKL_%s_Max_Threads",
    "bli_thread_%s_num_threads",
)


@cache
def _blas_threads() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """Return functions that get and set the number of threads, for each BLAS library that numpy uses."""
    try:
        mapped = {Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines()}
    except OSError:  # not Linux: the libraries in numpy's wheels
        package = Path(np.__file__).parent
        mapped = {*package.with_name("numpy.libs").glob("*"), *(package / ".dylibs").glob("*")}
    found = []
    for path in sorted(path for path in mapped if _BLAS.search(path.name) and path.is_file()):
        library = ctypes.CDLL(str(path))
        for name in _COUNTERS:
            setter = (name % "set").replace("Set_Max", "Set_Num")  # MKL's
            if hasattr(library, name % "get"):
                found.append((getattr(library, name % "get"), getattr(library, setter)))
                break
    return found


def expand_notes(expander: Expander, notes: Sequence[Note]) -> list[list[Expansion] | str]:
    """Expand notes together; a note that cannot be expanded gives a reason instead of a list."""
    try:
        return list(expander.pipe(notes, batch_size=max(1, len(notes))))
    except Exception:  # one bad note must not fail the others, so each is tried alone
        return [_expand_alone(expander, note) for note in notes]


def _expand_alone(expander: Expander, note: Note) -> list[Expansion] | str:
    try:
        return expander(note.text, sections=note.sections, metadata=note.metadata)
    except Exception as error:
        return f"expansion failed ({type(error).__name__})"  # the message may quote the note


def annotate_table(settings: ExpanderSettings, ids: Sequence[Any], texts: Sequence[Any]) -> Any:
    """Expand a batch of texts into an Arrow table with one row per expansion; values that are not text give none.

    A note that cannot be expanded gives one row with its id, no `start`, and the reason as `abstained`.
    """
    import pyarrow as pa

    given = zip(ids, texts, strict=True)
    notes = [Note(str(note_id), text) for note_id, text in given if isinstance(text, str) and text]
    found: list[dict[str, Any]] = []
    for note, expansions in zip(notes, expand_notes(shared_expander(settings), notes), strict=True):
        if isinstance(expansions, str):
            found.append({"note_id": note.id, "candidates": [], "abstained": expansions})
        else:
            found += [rows.annotation_row(note, expansion) for expansion in expansions]
    return pa.Table.from_pylist(found, schema=rows.arrow_schema(rows.LAYOUT))


# Engines: in this process, in several, or on a cluster. All give the same results, in any order.


Engine = Callable[[Task, Iterable[Shard]], Iterator[bytes]]
"""Takes a task and shards; yields the results of `Task.run` as they arrive."""


def find_engine(name: str, *, workers: int) -> Engine:
    """Return an engine by its name; MissingExtra says what to install."""
    run = run_locally
    if name == "ray":
        from lmcells.integrations.ray_engine import run_on_ray as run
    elif name == "spark":
        from lmcells.integrations.spark_engine import run_on_spark as run
    elif name != "local":
        raise ConfigError(f"engine: found {name!r}, allowed: {', '.join(ENGINES)}.")
    return lambda task, shards: run(task, shards, workers)


def run_locally(task: Task, shards: Iterable[Shard], workers: int) -> Iterator[bytes]:
    """Expand shards in this process, or in several that each load the model once."""
    return run_in_workers(task.run, shards, workers, prepare=partial(shared_expander, task.expander))


def waves_of(shards: Iterable[Shard], *, max_characters: int = WAVE_CHARACTERS) -> Iterator[list[bytes]]:
    """Yield pickled shards in groups that fit the driver's memory."""
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


def run_pickled(task: Task, pickled: bytes) -> bytes:
    return task.run(pickle.loads(pickled))  # from our own driver
