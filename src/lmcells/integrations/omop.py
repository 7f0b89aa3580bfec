"""OMOP: expansions in a NOTE table as rows of NOTE_NLP (CDM 5.4)."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import lmcells
from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.expansion.expansion import Expansion
from lmcells.files import atomic_write
from lmcells.integrations.exports import AnnotatedNote
from lmcells.integrations.rows import Kind, RowLayout, check_format, open_rows
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.notes.sections import canonical_name, load_aliases

COLUMNS = tuple(
    "note_nlp_id note_id section_concept_id snippet offset lexical_variant note_nlp_concept_id "
    "note_nlp_source_concept_id nlp_system nlp_date nlp_datetime term_exists term_temporal term_modifiers".split()
)
_KINDS: dict[str, Kind] = {name: "whole" for name in COLUMNS if name.endswith("_id")}
LAYOUT = RowLayout(COLUMNS, _KINDS | {"nlp_date": "date", "nlp_datetime": "time"}, number="note_nlp_id")
NO_NUMBER = "note_id is not a whole number (OMOP)"
NO_CONCEPT = 0  # what OMOP writes where no concept matches

_MAX_SNIPPET = _MAX_VARIANT = 250  # characters of the CDM's columns
_MAX_MODIFIERS = 2000
_AROUND = 60  # characters of the snippet on either side
_WHOLE = re.compile(r"\d{1,18}")
_TOO_LARGE = 10**18  # for a first row: the last must fit into 64 bits


@dataclass(frozen=True, slots=True)
class NoteNlpOptions:
    """How to write rows of NOTE_NLP."""

    first_id: int = 1  # note_nlp_id of the first row, to append to a table
    with_abstained: bool = True  # include short forms without an answer
    section_concepts: tuple[tuple[str, int], ...] = ()  # concepts of sections, by name
    time: datetime | None = None  # the date of the rows; None: now, or when the job began

    def __post_init__(self) -> None:
        if not 0 <= self.first_id < _TOO_LARGE:
            raise ConfigError(f"--first-id: found {self.first_id}, allowed: 0 to {_TOO_LARGE - 1:,}.")

    @property
    def layout(self) -> RowLayout:
        return replace(LAYOUT, first=self.first_id)

    def rows(self, note: Note, expansions: Iterable[Expansion]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a note that has a `note_number`, without their `note_nlp_id`."""
        time, sections = self.time or datetime.now(), dict(self.section_concepts)
        for expansion in expansions:
            if self.with_abstained or not expansion.abstained:
                yield note_nlp_row(note, expansion, time, sections)


def read_section_concepts(path: Path) -> tuple[tuple[str, int], ...]:
    """Read a map from sections (canonical name or alias) to concepts: CSV with the columns section and concept_id."""
    aliases = load_aliases()
    found: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if not {"section", "concept_id"} <= set(rows.fieldnames or ()):
                raise FormatError(f"{path} needs the columns section and concept_id.")
            for row in rows:
                place, concept = f"{path}, line {rows.line_num}", (row["concept_id"] or "").strip()
                if not (row["section"] or "").strip() or not _WHOLE.fullmatch(concept):
                    raise FormatError(f"{place}: needs a section and a whole concept_id.")
                name = canonical_name(aliases, row["section"])
                if found.setdefault(name, int(concept)) != int(concept):
                    raise FormatError(f"{place}: {name} already has another concept_id. Keep one.")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. Check the path.") from error
    except (UnicodeDecodeError, csv.Error):
        raise FormatError(f"{path} is not CSV in UTF-8. Save it as that.") from None
    return tuple(sorted(found.items()))


def parse_nlp_time(given: str) -> datetime:
    """Read a date, or a date and time, in ISO format."""
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        allowed = "2026-01-31, or with a time, 2026-01-31T08:30:00"
        raise ConfigError(f"the date of NOTE_NLP: found {given!r}, allowed: {allowed}.") from None


def note_number(note: Note) -> int | None:
    """Return the note_id of the NOTE table: what follows the source in our id, if it is a whole number."""
    found = note.id.split("/", maxsplit=1)[-1]  # "note/2024/12" is not note 12
    return int(found) if _WHOLE.fullmatch(found) else None


def note_nlp_row(
    note: Note, expansion: Expansion, time: datetime, section_concepts: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the row of an expansion, without its `note_nlp_id`.

    Negation is not detected, so `term_exists` and `term_temporal` stay empty. `term_modifiers` has the rest, and the
    inventory's concept if that is not an OMOP concept (a CUI, say).
    """
    concept_id = expansion.concept_id
    is_omop = concept_id is not None and _WHOLE.fullmatch(concept_id) is not None
    modifiers = {
        "short_form": expansion.short_form,
        "long_form": expansion.long_form,
        "probability": None if expansion.probability is None else f"{expansion.probability:.4f}",
        "source": expansion.source,
        "abstained": expansion.abstained,
        "section": expansion.section,
        "concept_id": None if is_omop else concept_id,
    }
    given = (f"{name}={value.replace(';', ',')}" for name, value in modifiers.items() if value is not None)
    return {
        "note_id": note_number(note),
        "section_concept_id": (section_concepts or {}).get(expansion.section or "", NO_CONCEPT),
        "snippet": _snippet(note.text, expansion.start, expansion.end),
        "offset": str(expansion.start),
        "lexical_variant": note.text[expansion.start : expansion.end][:_MAX_VARIANT],
        "note_nlp_concept_id": int(concept_id or NO_CONCEPT) if is_omop else NO_CONCEPT,
        "note_nlp_source_concept_id": NO_CONCEPT,
        "nlp_system": f"lmcells {lmcells.__version__}",
        "nlp_date": time.date().isoformat(),
        "nlp_datetime": time.replace(tzinfo=None, microsecond=0).isoformat(sep=" "),
        "term_exists": None,
        "term_temporal": None,
        "term_modifiers": ";".join(given)[:_MAX_MODIFIERS],
    }


def _snippet(text: str, start: int, end: int) -> str:
    """Return the text around a span, cut between words."""
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    if first and (space := re.search(r"\s", text[first:start])):
        first += space.end()
    if last < len(text) and (space := re.search(r"\s\S*\Z", text[end:last])):
        last = end + space.start()
    return text[first : min(last, first + _MAX_SNIPPET)]


def export_note_nlp(
    notes: Iterable[AnnotatedNote], path: Path, *, options: NoteNlpOptions, report: ReadReport
) -> int:
    """Write annotated notes as a NOTE_NLP table, in the format of the suffix; -> the number of rows.

    Notes without a `note_number` are left out, with a warning in `report`; if no note has one, nothing is written.
    """
    check_format(path)
    options = replace(options, time=options.time or datetime.now())
    n_rows = 0
    with atomic_write(path) as temporary, open_rows(temporary, path.suffix.lower(), options.layout) as write:
        for each in notes:
            if note_number(each.note) is None:
                report.warnings[NO_NUMBER] += 1
                report.first_seen.setdefault(NO_NUMBER, each.id)
                continue
            for row in options.rows(each.note, each.expansions):
                write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                n_rows += 1
        if report.n_read and report.warnings[NO_NUMBER] == report.n_read:
            raise FormatError(
                f"OMOP needs whole numbers as note ids; none of {report.n_read:,} is one, the first is "
                f"{report.first_seen[NO_NUMBER]!r}. Annotate with --id-column NAME, the column of the note_id."
            )
    return n_rows
