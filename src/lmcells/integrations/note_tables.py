"""Ids and texts -> an Arrow table with one row an expansion: what a worker of a cluster does with a batch."""

from collections.abc import Sequence
from typing import Any

from lmcells.integrations import annotation_rows
from lmcells.integrations.annotation_rows import annotation_row
from lmcells.integrations.annotation_shard import expand_notes
from lmcells.integrations.expander_settings import ExpanderSettings
from lmcells.integrations.row_files import arrow_schema
from lmcells.notes.note import Note


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
