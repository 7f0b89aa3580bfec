"""NOTE to NOTE_NLP, loaded into a table with the types and lengths of the Common Data Model 5.4."""

import csv
import json
import sqlite3
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.ward import ward_notes
from lmcells.errors import ConfigError, FormatError
from lmcells.expansion import Candidate, Expansion
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.annotate import annotate
from lmcells.integrations.omop import (
    COLUMNS,
    NoteNlpOptions,
    note_nlp_row,
    parse_nlp_time,
    read_section_concepts,
)
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.note import Note
from note_files import write_csv, write_jsonl

TIME = datetime(2026, 1, 31, 8, 30)
# The field-level specification of CDM 5.4: what is required, of which type, how long at most.
NOTE_NLP = """CREATE TABLE note_nlp (
  note_nlp_id INTEGER NOT NULL PRIMARY KEY,
  note_id INTEGER NOT NULL REFERENCES note (note_id),
  section_concept_id INTEGER,
  snippet TEXT CHECK (length(snippet) <= 250),
  "offset" TEXT CHECK (length("offset") <= 50),
  lexical_variant TEXT NOT NULL CHECK (length(lexical_variant) <= 250),
  note_nlp_concept_id INTEGER,
  note_nlp_source_concept_id INTEGER,
  nlp_system TEXT CHECK (length(nlp_system) <= 250),
  nlp_date TEXT NOT NULL CHECK (nlp_date = date(nlp_date)),
  nlp_datetime TEXT CHECK (nlp_datetime = datetime(nlp_datetime)),
  term_exists TEXT CHECK (length(term_exists) <= 1),
  term_temporal TEXT CHECK (length(term_temporal) <= 50),
  term_modifiers TEXT CHECK (length(term_modifiers) <= 2000)
) STRICT"""


def note_table(path: Path, n_notes: int = 20) -> Path:
    """A NOTE table as it is exported, upper case and all."""
    columns = ("NOTE_ID", "PERSON_ID", "NOTE_DATE", "NOTE_TYPE_CONCEPT_ID", "NOTE_TITLE", "NOTE_TEXT")
    rows = [
        {"NOTE_ID": 9_000_000_000 + i, "PERSON_ID": 5, "NOTE_DATE": "2190-01-02", "NOTE_TEXT": note["text"]}
        for i, note in enumerate(ward_notes(n_notes))
    ]
    return write_csv(path, rows, columns=columns)


def run(settings: ExpanderSettings, notes: Path, output: Path, **options: Any) -> dict[str, Any]:
    return annotate(NoteFiles([notes]), output, expander=settings, **{"omop": NoteNlpOptions()} | options)


def test_a_note_table_becomes_a_note_nlp_table(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = note_table(tmp_path / "note.csv")
    report = run(settings, notes, tmp_path / "note_nlp.csv", shard_notes=6)
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("CREATE TABLE note (note_id INTEGER PRIMARY KEY, note_text TEXT) STRICT")
    texts = {9_000_000_000 + i: note["text"] for i, note in enumerate(ward_notes(20))}
    database.executemany("INSERT INTO note VALUES (?, ?)", texts.items())
    database.execute(NOTE_NLP)
    with (tmp_path / "note_nlp.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    database.executemany(
        f"INSERT INTO note_nlp VALUES ({', '.join('?' * len(COLUMNS))})",
        [[value or None for value in row] for row in rows],
    )
    (count,) = database.execute("SELECT count(*) FROM note_nlp").fetchone()
    assert count == report["n_expansions"] == len(rows) > 40
    found = database.execute(
        'SELECT note_nlp_id, substr(note_text, "offset" + 1, length(lexical_variant)), lexical_variant,'
        " instr(snippet, lexical_variant), instr(note_text, snippet), term_exists, section_concept_id"
        " FROM note_nlp JOIN note USING (note_id) ORDER BY note_nlp_id"
    ).fetchall()
    assert [row[0] for row in found] == list(range(1, len(rows) + 1))
    for _, at_offset, lexical_variant, in_snippet, in_text, term_exists, section in found:
        assert at_offset == lexical_variant
        assert in_snippet > 0
        assert in_text > 0
        assert (term_exists, section) == (None, 0)
    database.close()


def test_all_formats_hold_the_same_rows(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = note_table(tmp_path / "note.csv")
    for suffix in ("csv", "jsonl", "parquet"):
        run(settings, notes, tmp_path / f"out.{suffix}", omop=NoteNlpOptions(time=TIME))
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("nlp_date").type == pa.date32()
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().split("\n")[:-1]]
    from_parquet = [
        row | {"nlp_date": str(row["nlp_date"]), "nlp_datetime": str(row["nlp_datetime"])}
        for row in table.to_pylist()
    ]
    assert lines == from_parquet
    with (tmp_path / "out.csv").open(newline="") as file:
        from_csv = list(csv.DictReader(file))
    plain = [{name: "" if value is None else str(value) for name, value in row.items()} for row in lines]
    assert from_csv == plain
    dates = {(row["nlp_date"], row["nlp_datetime"]) for row in lines}
    assert dates == {("2026-01-31", "2026-01-31 08:30:00")}


def test_a_job_has_one_date_however_often_it_was_stopped(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = note_table(tmp_path / "note.csv")
    output = tmp_path / "out.jsonl"

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, notes, output, shard_notes=4, on_progress=stop)
    plan = tmp_path / "out.jsonl.parts" / "plan.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"time": "2020-02-03T04:05:06"}))
    first = (tmp_path / "out.jsonl.parts" / "part-000000.jsonl").read_text()
    run(settings, notes, output, shard_notes=4, resume=True)
    dates = [json.loads(line)["nlp_datetime"] for line in output.read_text().split("\n")[:-1]]
    n_first = json.loads(first.split("\n")[0])["n_rows"]
    assert set(dates[n_first:]) == {"2020-02-03 04:05:06"}


def test_a_note_without_a_whole_number_is_rejected_and_named(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    notes = write_jsonl(tmp_path / "n.jsonl", [{"id": each, "text": "PT"} for each in ("7", "x-8", "x/8")])
    report = run(settings, notes, tmp_path / "out.jsonl")
    assert report["failed"] == {"note_id is not a whole number (OMOP)": 2}
    rejected = map(json.loads, (tmp_path / "out.jsonl.rejected.jsonl").read_text().splitlines())
    assert [row["note_id"] for row in rejected] == ["n/x-8", "n/x/8"]


def expansion(start: int, end: int, concept_id: str | None) -> Expansion:
    candidates = (Candidate("physical; therapy", 0.75, concept_id),)
    return Expansion(start, end, "PT", "PLAN", "physical; therapy", 0.75, "model", candidates)


def test_concepts_are_omops_or_stand_among_the_modifiers() -> None:
    note = Note("note/1", "in PT")
    assert note_nlp_row(note, expansion(3, 5, "4238738"), TIME)["note_nlp_concept_id"] == 4238738
    row = note_nlp_row(note, expansion(3, 5, "C0949766"), TIME)
    assert row["note_nlp_concept_id"] == 0
    assert row["term_modifiers"] == (
        "short_form=PT;long_form=physical, therapy;probability=0.7500;source=model;section=PLAN;concept_id=C0949766"
    )


@given(st.text(max_size=400), st.text(min_size=1, max_size=300), st.text(max_size=400))
def test_the_snippet_holds_the_term_and_never_too_much(before: str, written: str, after: str) -> None:
    text = before + written + after
    place = expansion(len(before), len(before) + len(written), None)
    row = note_nlp_row(Note("note/1", text), place, TIME)
    assert len(row["snippet"]) <= 250
    assert row["snippet"] in text
    assert row["lexical_variant"] == written[:250]
    assert written[:180] in row["snippet"]


def test_a_date_that_is_none_is_refused() -> None:
    assert parse_nlp_time("2026-01-31T08:30:00") == TIME
    with pytest.raises(ConfigError, match=r"found '31\.1\.2026', allowed: 2026-01-31"):
        parse_nlp_time("31.1.2026")


def test_rows_may_be_appended_with_concepts_of_sections_and_without_the_abstained(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    notes = note_table(tmp_path / "note.csv")
    (tmp_path / "map.csv").write_text("section,concept_id\nA/P,11\nplan,12\nLabs,13\n")
    concepts = read_section_concepts(tmp_path / "map.csv")
    assert dict(concepts) == {"ASSESSMENT AND PLAN": 11, "PLAN": 12, "LABORATORY DATA": 13}
    unsure = replace(settings, threshold=0.52)
    options = NoteNlpOptions(first_id=501, with_abstained=False, section_concepts=concepts, time=TIME)
    for name, omop in (("all.jsonl", NoteNlpOptions(time=TIME)), ("some.jsonl", options)):
        run(unsure, notes, tmp_path / name, omop=omop, shard_notes=6)
    every, some = (
        [json.loads(line) for line in (tmp_path / name).read_text().split("\n")[:-1]]
        for name in ("all.jsonl", "some.jsonl")
    )
    answered = [row for row in every if "abstained=" not in row["term_modifiers"]]
    assert 0 < len(some) == len(answered) < len(every)
    assert [row["note_nlp_id"] for row in some] == list(range(501, 501 + len(some)))
    for row, plain in zip(some, answered, strict=True):
        section = next((each for each in row["term_modifiers"].split(";") if each.startswith("section=")), "")
        assert row["section_concept_id"] == dict(concepts).get(section.removeprefix("section="), 0)
        assert row["offset"] == plain["offset"]
    assert {row["section_concept_id"] for row in some} >= {12}


@pytest.mark.parametrize("first_id", [-1, 10**18, 2**63 - 2, 2**64])
def test_a_first_id_whose_rows_may_not_fit_into_a_table_is_refused(first_id: int) -> None:
    with pytest.raises(ConfigError, match=r"^--first-id: found .*, allowed: 0 to 999,999,999,999,999,999\.$"):
        NoteNlpOptions(first_id=first_id)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"section,concept_id\nA/P,eleven\n", "line 2: needs a section and a whole concept_id"),
        (b"section,concept_id\nPMH,5\npast medical history,6\n", "line 3: PAST MEDICAL HISTORY already has"),
        (b"section;concept_id\nPMH;5\n", "needs the columns section and concept_id"),
        (b"section,concept_id\nD\xe9cision,5\n", "is not CSV in UTF-8"),
    ],
)
def test_a_map_of_sections_that_cannot_be_used_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "map.csv").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_section_concepts(tmp_path / "map.csv")
