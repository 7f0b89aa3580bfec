"""A few hundred notes and what was found in them: the unit of work that every engine shares out.

Notes are ranked together, and the last digits of a probability depend on which: a shard is a batch of its own, made by
the notes alone, so that neither the number of workers nor the engine changes a byte.
"""

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

from lmcells.corpus.shard import batch_notes
from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations import omop
from lmcells.integrations import rows as annotation_rows
from lmcells.integrations.omop import NlpRun, note_nlp_row, note_number
from lmcells.integrations.rows import RowLayout, annotation_row, arrow_schema
from lmcells.notes.note import Note

# Which expander to open: plain values that travel to another process, where it is opened once.


@dataclass(frozen=True, slots=True)
class ExpanderSettings:
    """A model folder and an inventory (None: the shipped ones), how sections are found, and when to abstain."""

    model: str | None = None
    inventory: str | None = None
    sections: str = "rules"
    threshold: float | None = None  # least probability of an answer; None: the model's own

    def __post_init__(self) -> None:
        if self.sections not in SECTION_STYLES:
            raise ConfigError(f"sections: found {self.sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold: found {self.threshold}, allowed: 0 to 1.")

    def open(self) -> Expander:
        """Load the model."""
        expander = Expander.from_pretrained(self.model, inventory=self.inventory, sections=self.sections)
        if self.threshold is not None:
            expander.calibration = replace(expander.calibration, least_probability=self.threshold)
        return expander

    def opened(self) -> Expander:
        """Return the expander of this process, loaded when it is first asked for; it answers the same in any other."""
        return _opened(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@lru_cache(maxsize=2)
def _opened(settings: ExpanderSettings) -> Expander:
    return settings.open()


# A few hundred notes and what was found in them: the unit of work that every engine shares out.
#
# Notes are ranked together, and the last digits of a probability depend on which: a shard is a batch of its own, made by
# the notes alone, so that neither the number of workers nor the engine changes a byte.


SHARD_NOTES = 512
SHARD_CHARACTERS = 1 << 22  # few long notes are a shard as well: memory stays bounded


@dataclass(frozen=True, slots=True)
class Shard:
    """Notes with the number of their shard."""

    number: int
    notes: Sequence[Note]


@dataclass(frozen=True, slots=True)
class ShardResult:
    """Rows as JSON lines, exact counts, and the notes that could not be expanded, with the reasons."""

    number: int
    n_notes: int
    n_characters: int
    rows: bytes = field(repr=False)
    n_rows: int
    outcomes: dict[str, int]  # who expanded it ("model", "definition"), or why nobody did -> how many
    failed: list[tuple[str, str]]  # (note id, reason)

    def to_bytes(self) -> bytes:
        """One line of counts, then the rows."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name != "rows"}
        return json.dumps(counts).encode() + b"\n" + self.rows

    @classmethod
    def from_bytes(cls, saved: bytes) -> Self:
        """The result that `to_bytes` wrote; ValueError when it was damaged since."""
        counts, _, rows = saved.partition(b"\n")
        values: dict[str, Any] = json.loads(counts)
        values["failed"] = [(note_id, reason) for note_id, reason in values["failed"]]
        if rows.count(b"\n") != values["n_rows"]:
            raise ValueError("rows are missing")
        return cls(**values, rows=rows)


def shards_of(notes: Iterable[Note], *, n_notes: int = SHARD_NOTES) -> Iterator[Shard]:
    """Group notes into shards, by the notes alone."""
    batches = batch_notes(notes, max_characters=SHARD_CHARACTERS, max_notes=n_notes)
    for number, batch in enumerate(batches):
        yield Shard(number, batch)


@dataclass(frozen=True, slots=True)
class AnnotationTask:
    """What a worker needs beside the notes; small, and the same for all shards."""

    expander: ExpanderSettings
    omop: NlpRun | None = None  # rows of NOTE_NLP instead of our own

    @property
    def layout(self) -> RowLayout:
        """The columns of the rows."""
        return annotation_rows.LAYOUT if self.omop is None else omop.LAYOUT

    def run(self, shard: Shard) -> ShardResult:
        """Expand the notes of a shard with the expander of this process."""
        failed: list[tuple[str, str]] = []
        notes = list(shard.notes)
        if self.omop is not None:
            failed = [
                (note.id, "note_id is not a whole number (OMOP)") for note in notes if not _has_number(note)
            ]
            notes = [note for note in notes if _has_number(note)]
        outcomes: Counter[str] = Counter()
        lines: list[str] = []
        for note, expansions in zip(notes, expand_notes(self.expander.opened(), notes), strict=True):
            if isinstance(expansions, str):
                failed.append((note.id, expansions))
                continue
            for expansion in expansions:
                outcomes[expansion.abstained or expansion.source] += 1
                row = (
                    note_nlp_row(note, expansion, self.omop) if self.omop else annotation_row(note, expansion)
                )
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        return ShardResult(
            number=shard.number,
            n_notes=len(shard.notes),
            n_characters=sum(len(note.text) for note in shard.notes),
            rows="".join(lines).encode(),
            n_rows=len(lines),
            outcomes=dict(sorted(outcomes.items())),
            failed=failed,
        )


def expand_notes(expander: Expander, notes: Sequence[Note]) -> list[list[Expansion] | str]:
    """Expand notes together; in place of the expansions of one that cannot be, the reason."""
    try:
        return list(expander.pipe(notes, batch_size=max(1, len(notes))))
    except Exception:  # one note must not cost the others: each is tried alone
        return [_expand_alone(expander, note) for note in notes]


def _expand_alone(expander: Expander, note: Note) -> list[Expansion] | str:
    try:
        return expander(note.text, sections=note.sections)
    except Exception as error:
        return f"expansion failed ({type(error).__name__})"  # what it says may hold the text


def _has_number(note: Note) -> bool:
    return note_number(note) is not None


# Ids and texts -> an Arrow table with one row an expansion: what a worker of a cluster does with a batch.


def annotate_table(settings: ExpanderSettings, ids: Sequence[Any], texts: Sequence[Any]) -> Any:
    """Expand the texts of a batch together. What is no text gives no row.

    A note that cannot be expanded gives a row with its id and the reason as `abstained`, and no start: it is not lost.
    """
    import pyarrow as pa

    notes = [
        Note(str(note_id), text)
        for note_id, text in zip(ids, texts, strict=True)
        if isinstance(text, str) and text
    ]
    rows: list[dict[str, Any]] = []
    for note, expansions in zip(notes, expand_notes(settings.opened(), notes), strict=True):
        if isinstance(expansions, str):
            rows.append({"note_id": note.id, "candidates": [], "abstained": expansions})
        else:
            rows += [annotation_row(note, expansion) for expansion in expansions]
    return pa.Table.from_pylist(rows, schema=arrow_schema(annotation_rows.LAYOUT))


# Shards by the handful: a cluster is given as many at a time as the memory of the driver holds.


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
