"""OMOP: what was found in a NOTE table, as rows of NOTE_NLP (CDM 5.4)."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import lmcells
from lmcells.errors import ConfigError, FormatError
from lmcells.expansion.expansion import Expansion
from lmcells.files import atomic_write
from lmcells.integrations.exports import AnnotatedNote
from lmcells.integrations.rows import Kind, RowLayout, check_format, open_rows
from lmcells.notes.note import Note

COLUMNS = (
    "note_nlp_id",
    "note_id",
    "section_concept_id",
    "snippet",
    "offset",
    "lexical_variant",
    "note_nlp_concept_id",
    "note_nlp_source_concept_id",
    "nlp_system",
    "nlp_date",
    "nlp_datetime",
    "term_exists",
    "term_temporal",
    "term_modifiers",
)
_KINDS: dict[str, Kind] = {"nlp_date": "date", "nlp_datetime": "time"}
LAYOUT = RowLayout(
    COLUMNS,
    _KINDS | {name: "whole" for name in COLUMNS if name.endswith("_id")},
    number="note_nlp_id",
)
NO_CONCEPT = 0
"""What OMOP writes where no concept matches."""

_LONGEST = {"snippet": 250, "lexical_variant": 250, "term_modifiers": 2000}  # of the CDM's columns
_AROUND = 60  # characters of the snippet on either side
_WHOLE = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class NlpRun:
    """When the notes were processed; None: when the job began."""

    time: datetime | None = None

    @classmethod
    def parse(cls, given: str) -> Self:
        """Read a date, or a date and time, in ISO format."""
        try:
            return cls(datetime.fromisoformat(given))
        except ValueError:
            raise ConfigError(
                f"the date of NOTE_NLP: found {given!r}, allowed: 2026-01-31, or with a time, 2026-01-31T08:30:00."
            ) from None


def note_number(note: Note) -> int | None:
    """Return the note_id of the NOTE table, which our ids hold after the name of the file."""
    found = note.id.rpartition("/")[2]
    return int(found) if _WHOLE.fullmatch(found) else None


def note_nlp_row(note: Note, expansion: Expansion, run: NlpRun) -> dict[str, Any]:
    """Return the row of an expansion, without its `note_nlp_id`.

    Whether the term is negated is not known here, so `term_exists` and `term_temporal` stay empty. A concept of the
    inventory that is no OMOP concept (a CUI, say) stands in `term_modifiers`, and so does all else that was found.
    """
    concept = _omop_concept(expansion.concept_id)
    time = run.time or datetime.now()
    return {
        "note_id": note_number(note),
        "section_concept_id": NO_CONCEPT,
        "snippet": _snippet(note.text, expansion.start, expansion.end),
        "offset": str(expansion.start),
        "lexical_variant": note.text[expansion.start : expansion.end][: _LONGEST["lexical_variant"]],
        "note_nlp_concept_id": concept,
        "note_nlp_source_concept_id": NO_CONCEPT,
        "nlp_system": f"lmcells {lmcells.__version__}",
        "nlp_date": time.date().isoformat(),
        "nlp_datetime": time.replace(tzinfo=None, microsecond=0).isoformat(sep=" "),
        "term_exists": None,
        "term_temporal": None,
        "term_modifiers": _modifiers(expansion, has_concept=concept != NO_CONCEPT),
    }


def _omop_concept(concept_id: str | None) -> int:
    return int(concept_id) if concept_id is not None and _WHOLE.fullmatch(concept_id) else NO_CONCEPT


def _snippet(text: str, start: int, end: int) -> str:
    """The words around, cut between words."""
    longest = _LONGEST["snippet"]
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    if first and (space := re.search(r"\s", text[first:start])):
        first += space.end()
    if last < len(text) and (space := re.search(r"\s\S*\Z", text[end:last])):
        last = end + space.start()
    return text[first : min(last, first + longest)]


def _modifiers(expansion: Expansion, *, has_concept: bool) -> str:
    values = {
        "short_form": expansion.short_form,
        "long_form": expansion.long_form,
        "probability": None if expansion.probability is None else f"{expansion.probability:.4f}",
        "source": expansion.source,
        "abstained": expansion.abstained,
        "section": expansion.section,
        "concept_id": None if has_concept else expansion.concept_id,
    }
    given = (f"{name}={value.replace(';', ',')}" for name, value in values.items() if value is not None)
    return ";".join(given)[: _LONGEST["term_modifiers"]]


def export_note_nlp(notes: Iterable[AnnotatedNote], path: Path, *, run: NlpRun | None = None) -> int:
    """Write annotated notes as a NOTE_NLP table, in the format of the file's name; -> how many rows it has."""
    check_format(path)
    dated = NlpRun(datetime.now()) if run is None or run.time is None else run
    n_rows = 0
    with atomic_write(path) as temporary, open_rows(temporary, path.suffix.lower(), LAYOUT) as write:
        for each in notes:
            if each.expansions and note_number(each.note) is None:
                raise FormatError(
                    f"the note {each.note.id!r} has no whole number as its id, which OMOP needs."
                )
            for expansion in each.expansions:
                row = note_nlp_row(each.note, expansion, dated)
                write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                n_rows += 1
    return n_rows
