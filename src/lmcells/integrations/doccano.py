"""doccano: JSON lines for a project of the kind "sequence labeling".

A label is what a short form stands for, or `abstained`; the id of a note becomes part of the document's metadata.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmcells.files import atomic_write
from lmcells.integrations.annotated_notes import AnnotatedNote

ABSTAINED = "abstained"
_LONGEST_LABEL = 100  # of doccano's label types


def export_doccano(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write a file for doccano's import (format "JSONL", columns "text" and "label"); -> how many documents it has."""
    n_documents = 0
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for each in notes:
            print(json.dumps(document(each), ensure_ascii=False), file=file)
            n_documents += 1
    return n_documents


def document(annotated: AnnotatedNote) -> dict[str, Any]:
    """Return a note as doccano reads it."""
    labels = [
        [each.start, each.end, (each.long_form or ABSTAINED)[:_LONGEST_LABEL]]
        for each in annotated.expansions
    ]
    return {"text": annotated.text, "label": labels, "note_id": annotated.id}
