"""Shards: a few hundred notes and what was found in them, the piece of work that every engine hands to its workers.

Notes are ranked together, and the last digits of a probability depend on which. A shard is therefore a batch of its
own, cut by the notes alone, so that neither the engine nor the number of workers changes a byte.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from lmcells.corpus.shard import batch_notes
from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations import omop, rows
from lmcells.notes.note import Note

SHARD_NOTES = 512
SHARD_CHARACTERS = 1 << 22  # bounds memory where notes are long


@dataclass(frozen=True, slots=True)
class ExpanderSettings:
    """Which expander to open: plain values that can be sent to another process, which opens it there.

    `model` is a model folder and `inventory` a file of senses; None means the shipped ones.
    """

    model: str | None = None
    inventory: str | None = None
    sections: str = "rules"  # how sections are found: rules, paper or none
    threshold: float | None = None  # abstain below this probability; None: the model's own threshold

    def __post_init__(self) -> None:
        if self.sections not in SECTION_STYLES:
            raise ConfigError(f"sections: found {self.sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold: found {self.threshold}, allowed: 0 to 1.")

    def open(self) -> Expander:
        """Load the model and return an expander."""
        expander = Expander.from_pretrained(self.model, inventory=self.inventory, sections=self.sections)
        if self.threshold is not None:
            expander.calibration = replace(expander.calibration, least_probability=self.threshold)
        return expander


@lru_cache(maxsize=2)
def shared_expander(settings: ExpanderSettings) -> Expander:
    """Return this process's expander for some settings, loaded on first use."""
    return settings.open()


@dataclass(frozen=True, slots=True)
class Shard:
    """Notes, and the number of their shard."""

    number: int
    notes: Sequence[Note]


@dataclass(frozen=True, slots=True)
class ShardResult:
    """Rows as JSON lines, exact counts, and the notes that could not be expanded."""

    number: int
    n_notes: int
    n_characters: int
    rows: bytes = field(repr=False)
    n_rows: int
    outcomes: dict[str, int]  # expansions by source, or by the reason for abstaining
    failed: list[tuple[str, str]]  # (note id, reason)

    def to_bytes(self) -> bytes:
        """Return one line of counts, then the rows."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name != "rows"}
        return json.dumps(counts).encode() + b"\n" + self.rows

    @classmethod
    def from_bytes(cls, saved: bytes) -> Self:
        """Return the result that `to_bytes` wrote; ValueError if it was damaged since."""
        counts, _, rows = saved.partition(b"\n")
        values: dict[str, Any] = json.loads(counts)
        values["failed"] = [(note_id, reason) for note_id, reason in values["failed"]]
        if rows.count(b"\n") != values["n_rows"]:
            raise ValueError("rows are missing")
        return cls(**values, rows=rows)


def shards_of(notes: Iterable[Note], *, n_notes: int = SHARD_NOTES) -> Iterator[Shard]:
    """Group notes into shards, by the notes alone."""
    batches = batch_notes(notes, max_characters=SHARD_CHARACTERS, max_notes=n_notes)
    return (Shard(number, batch) for number, batch in enumerate(batches))


@dataclass(frozen=True, slots=True)
class AnnotationTask:
    """What a worker does with every shard: expand with these settings, and write our rows or OMOP's."""

    expander: ExpanderSettings
    nlp_time: datetime | None = None  # write rows of NOTE_NLP with this date

    @property
    def layout(self) -> rows.RowLayout:
        """The columns of the rows."""
        return rows.LAYOUT if self.nlp_time is None else omop.LAYOUT

    def run(self, shard: Shard) -> ShardResult:
        """Expand the notes of a shard with this process's expander."""
        notes, failed = list(shard.notes), []
        if self.nlp_time is not None:
            notes = [note for note in shard.notes if omop.note_number(note) is not None]
            others = (note for note in shard.notes if omop.note_number(note) is None)
            failed = [(note.id, "note_id is not a whole number (OMOP)") for note in others]
        outcomes: Counter[str] = Counter()
        lines: list[str] = []
        expanded = expand_notes(shared_expander(self.expander), notes)
        for note, expansions in zip(notes, expanded, strict=True):
            if isinstance(expansions, str):
                failed.append((note.id, expansions))
                continue
            for expansion in expansions:
                outcomes[expansion.abstained or expansion.source] += 1
                lines.append(json.dumps(self._row(note, expansion), ensure_ascii=False) + "\n")
        return ShardResult(
            number=shard.number,
            n_notes=len(shard.notes),
            n_characters=sum(len(note.text) for note in shard.notes),
            rows="".join(lines).encode(),
            n_rows=len(lines),
            outcomes=dict(sorted(outcomes.items())),
            failed=failed,
        )

    def _row(self, note: Note, expansion: Expansion) -> dict[str, Any]:
        if self.nlp_time is None:
            return rows.annotation_row(note, expansion)
        return omop.note_nlp_row(note, expansion, self.nlp_time)


def expand_notes(expander: Expander, notes: Sequence[Note]) -> list[list[Expansion] | str]:
    """Expand notes together; a note that cannot be expanded gives the reason instead of a list."""
    try:
        return list(expander.pipe(notes, batch_size=max(1, len(notes))))
    except Exception:  # one note must not cost the others, so each is tried alone
        return [_expand_alone(expander, note) for note in notes]


def _expand_alone(expander: Expander, note: Note) -> list[Expansion] | str:
    try:
        return expander(note.text, sections=note.sections)
    except Exception as error:
        return f"expansion failed ({type(error).__name__})"  # the message may quote the note


def annotate_table(settings: ExpanderSettings, ids: Sequence[Any], texts: Sequence[Any]) -> Any:
    """Expand a batch of texts into an Arrow table with one row per expansion; what is not text gives no row.

    A note that cannot be expanded gives one row with its id, no `start`, and the reason as `abstained`.
    """
    import pyarrow as pa

    notes = [
        Note(str(note_id), text)
        for note_id, text in zip(ids, texts, strict=True)
        if isinstance(text, str) and text
    ]
    found: list[dict[str, Any]] = []
    for note, expansions in zip(notes, expand_notes(shared_expander(settings), notes), strict=True):
        if isinstance(expansions, str):
            found.append({"note_id": note.id, "candidates": [], "abstained": expansions})
        else:
            found += [rows.annotation_row(note, expansion) for expansion in expansions]
    return pa.Table.from_pylist(found, schema=rows.arrow_schema(rows.LAYOUT))
