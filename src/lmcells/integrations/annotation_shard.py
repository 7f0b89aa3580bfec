"""A few hundred notes and what was found in them: the unit of work that every engine shares out.

Notes are ranked together, and the last digits of a probability depend on which: a shard is a batch of its own, made by
the notes alone, so that neither the number of workers nor the engine changes a byte.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from lmcells.corpus.shard import batch_notes
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.integrations import annotation_rows, omop
from lmcells.integrations.annotation_rows import annotation_row
from lmcells.integrations.expander_settings import ExpanderSettings
from lmcells.integrations.omop import NlpRun, note_nlp_row, note_number
from lmcells.integrations.row_files import RowLayout
from lmcells.notes.note import Note

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
