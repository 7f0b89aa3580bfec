"""Each format gives back the notes that were written to it."""

import json
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.errors import FormatError, InputError
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.note import Note
from lmcells.notes.readers import (
    Columns,
    ReadReport,
    cut_notes,
    detect_format,
    opening,
    read_listed,
    read_notes,
)
from lmcells.notes.readers.report import _SeenIds
from note_files import (
    DISCHARGE_SUMMARY,
    MIMIC4_ROWS,
    NOTEEVENTS_ROWS,
    write_bytes,
    write_csv,
    write_jsonl,
    write_mimic4,
    write_noteevents,
    write_parquet,
    write_text_folder,
)


def read(path: Path, **options: Any) -> tuple[list[Note], ReadReport]:
    report = ReadReport()
    notes = list(read_notes(path, report=report, **options))
    assert report.n_read == len(notes)
    return notes, report


def test_noteevents_as_published_is_read(tmp_path: Path) -> None:
    notes, report = read(write_noteevents(tmp_path / "NOTEEVENTS.csv"))
    assert [note.id for note in notes] == ["mimic3/901", "mimic3/902", "mimic3/904"]
    assert notes[0].text == DISCHARGE_SUMMARY
    assert [dict(note.metadata) for note in notes] == [
        {"category": "Discharge summary"},
        {"category": "Nursing"},
        {"category": "Radiology"},
    ]
    assert report.skipped == {"marked as an error (ISERROR is 1)": 1}
    assert report.n_seen == len(NOTEEVENTS_ROWS)


def test_further_columns_are_kept_only_when_asked_for(tmp_path: Path) -> None:
    path = write_noteevents(tmp_path / "NOTEEVENTS.csv")
    notes, _ = read(path, columns=Columns(metadata=("DESCRIPTION", "HADM_ID")))
    assert notes[0].metadata == {
        "category": "Discharge summary",
        "DESCRIPTION": "Report",
        "HADM_ID": "9800001",
    }
    assert "HADM_ID" not in notes[2].metadata, "an absent value is left out"


def test_noteevents_in_lower_case_is_read(tmp_path: Path) -> None:
    path = write_noteevents(tmp_path / "noteevents.csv")
    header, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(header.lower() + b"\n" + rest)
    notes, report = read(path)
    assert notes[0].id == "mimic3/901"
    assert report.n_skipped == 1


def test_mimic4_notes_are_read(tmp_path: Path) -> None:
    notes, _ = read(write_mimic4(tmp_path / "discharge.csv"))
    assert [note.id for note in notes] == ["mimic4/99000001-DS-7", "mimic4/99000001-RR-8"]
    assert [note.metadata["category"] for note in notes] == ["DS", "RR"]
    assert [note.text for note in notes] == [row["text"] for row in MIMIC4_ROWS]


def test_columns_of_a_table_can_be_named(tmp_path: Path) -> None:
    columns = ("key", "kind", "body", "site")
    rows = [{"key": "a", "kind": "ED", "body": "r/o MI", "site": "north"}, {"key": "b/1", "body": "s/p PE"}]
    path = write_csv(tmp_path / "export.csv", rows, columns=columns)
    notes, _ = read(path, columns=Columns(text="body", id="key", category="kind", metadata=("site",)))
    assert notes == [
        Note("export/a", "r/o MI", {"category": "ED", "site": "north"}),
        Note("export/b/1", "s/p PE", {}),
    ]


def test_a_number_of_json_is_written_as_in_other_files(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"id": 1, "text": "HTN", "ward": 7.0, "bed": NaN, "floor": 1.5}\n')
    notes, _ = read(path, columns=Columns(metadata=("ward", "bed", "floor")))
    assert notes[0].metadata == {"ward": "7", "floor": "1.5"}


def test_tab_separated_tables_are_read(tmp_path: Path) -> None:
    rows = [{"id": "1", "text": 'two\nlines, a\ttab and "quotes"'}]
    notes, _ = read(write_csv(tmp_path / "notes.tsv", rows, delimiter="\t"))
    assert notes == [Note("notes/1", rows[0]["text"], {})]


def test_rows_without_id_are_numbered_by_their_place(tmp_path: Path) -> None:
    rows = [{"text": "one"}, {"text": " "}, {"text": "three"}]
    notes, _ = read(write_csv(tmp_path / "notes.v2.csv.gz", rows, columns=("text", "x"), gzip=True))
    assert [note.id for note in notes] == [
        f"{tmp_path.name}:notes.v2.csv:1",
        f"{tmp_path.name}:notes.v2.csv:3",
    ]


def test_an_empty_id_never_takes_the_id_of_another_row(tmp_path: Path) -> None:
    rows = [{"id": "2", "text": "one"}, {"id": "", "text": "two"}]
    notes, report = read(write_csv(tmp_path / "notes.csv", rows))
    assert [note.id for note in notes] == ["notes/2", f"{tmp_path.name}:notes.csv:2"]
    assert report.warnings == {"no id: file and row used": 1}


def test_rows_without_id_in_files_of_one_name_keep_apart(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("text,x\none,\n")
    (tmp_path / "notes.jsonl").write_text('{"text": "two"}\n')
    notes, _ = read(tmp_path)
    assert [note.id for note in notes] == [f"{tmp_path.name}:notes.csv:1", f"{tmp_path.name}:notes.jsonl:1"]


def test_json_lines_hold_texts_and_sections(tmp_path: Path) -> None:
    notes, report = read(write_jsonl(tmp_path / "notes.jsonl"))
    assert [note.id for note in notes] == ["notes/n1", "notes/other/n2", "notes/3"]
    assert notes[0] == Note("notes/n1", "HPI: Pt with MS, in PT twice weekly.", {"category": "Clinic"})
    assert notes[1].text == "He is s/p MI.\r\nMeds p.o. b.i.d.\r\n"
    assert notes[2].text == (
        "Received fresh.\nLabelled A.\nGross Description:\nA 2 cm mass.\nCA suspected.\n"
        "final  diagnosis:\nDuctal CA.\n"
    )
    assert report.n_skipped == 0


def test_given_sections_cover_the_text_exactly(tmp_path: Path) -> None:
    notes, _ = read(write_jsonl(tmp_path / "notes.jsonl"))
    text, sections = notes[2].text, notes[2].sections
    assert sections is not None
    assert [(section.header, section.name) for section in sections] == [
        (None, ""),
        (None, ""),
        ("Gross Description", "GROSS DESCRIPTION"),
        ("final  diagnosis", "FINAL DIAGNOSIS"),
    ]
    assert (sections[0].start, sections[-1].end) == (0, len(text))
    assert all(before.end == after.start for before, after in pairwise(sections))
    assert [text[section.body_start : section.end] for section in sections] == [
        "Received fresh.\n",
        "Labelled A.\n",
        "A 2 cm mass.\nCA suspected.\n",
        "Ductal CA.\n",
    ]


def test_a_named_text_column_wins_over_sections(tmp_path: Path) -> None:
    document = {"id": "1", "text": "whole", "sections": [{"header": "HPI", "text": "part"}]}
    path = write_jsonl(tmp_path / "notes.jsonl", [document])
    assert read(path)[0][0].text == "HPI:\npart\n"
    assert read(path, columns=Columns(text="text"))[0] == [Note("notes/1", "whole", {})]


def test_a_path_that_does_not_exist_is_refused_before_any_note_is_read(tmp_path: Path) -> None:
    paths = [write_jsonl(tmp_path / "notes.jsonl"), tmp_path / "absent.jsonl"]
    report = ReadReport()
    for begin in (
        lambda: next(NoteFiles(paths).read(report)),
        lambda: next(cut_notes(paths, format="auto", columns=Columns())),
    ):
        with pytest.raises(InputError, match=r"absent\.jsonl does not exist"):
            begin()
    assert report.n_read == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_whose_beginning_would_be_lost_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "notes")
    with pytest.raises(InputError, match=r"is a pipe\. Give - and pipe the notes into standard input"):
        read(tmp_path / "notes")


def test_text_that_is_not_in_the_encoding_named_is_refused(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "n.csv", b"id,text\n1,secret\n")
    with pytest.raises(FormatError, match=r"n\.csv is not UTF-16 text. Name another --encoding.$"):
        read(path, columns=Columns(encoding="utf-16"))


def test_an_empty_list_of_sections_leaves_the_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    part = [{"header": "HPI", "text": "part"}]
    columns: dict[str, list[Any]] = {"id": ["1", "2"], "text": ["whole", "other"], "sections": [[], part]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for path in (write_jsonl(tmp_path / "n.jsonl", rows), write_parquet(tmp_path / "n.parquet", columns)):
        assert [note.text for note in read(path)[0]] == ["whole", "HPI:\npart\n"]


def test_parquet_texts_are_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns = {
        "note_id": [1, 2, None],
        "text": ["a", None, "c"],
        "category": ["x", "y", None],
        "year": [1, 2, 3],
    }
    notes, report = read(write_parquet(tmp_path / "n.parquet", columns), columns=Columns(metadata=("year",)))
    assert notes == [
        Note("n/1", "a", {"category": "x", "year": "1"}),
        Note(f"{tmp_path.name}:n.parquet:3", "c", {"year": "3"}),
    ]
    assert report.skipped == {"empty note": 1}
    assert report.first_seen["empty note"] == "n.parquet:2"


def test_parquet_sections_are_those_of_json_lines(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    documents: list[list[dict[str, str | None]] | None] = [
        [{"header": "HPI", "text": "Pt with DM."}, {"header": None, "text": None}],
        None,
        [],
        [{"header": "", "text": "no header"}, {"header": "Plan :", "text": "PT"}],
    ]
    ids = ["n/s/0", "s/1", "s/2", "n/s/3"]
    parquet = write_parquet(tmp_path / "n.parquet", {"id": ids, "sections": documents})
    rows = [{"id": note_id, "sections": sections} for note_id, sections in zip(ids, documents, strict=True)]
    jsonl = write_jsonl(tmp_path / "n.jsonl", rows)
    from_parquet, report = read(parquet)
    assert from_parquet == read(jsonl)[0]
    assert [note.id for note in from_parquet] == ["n/s/0", "n/s/3"]
    assert report.skipped == {"empty note": 2}


def test_a_folder_of_text_is_read_in_sorted_order(tmp_path: Path) -> None:
    texts = {"b.txt": "two", "a/z.txt": "one", "c.txt.gz": "three", ".hidden.txt": "x", ".git/d.txt": "x"}
    notes, report = read(write_text_folder(tmp_path / "ward", texts))
    assert [(note.id, note.text) for note in notes] == [
        ("ward/a/z", "one"),
        ("ward/b", "two"),
        ("ward/c", "three"),
    ]
    assert report.n_skipped == 0


def test_a_text_file_has_the_same_id_alone_as_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_text_folder(tmp_path / "ward", {"a.txt": "Pt with CA.\r\n"})
    alone, _ = read(folder / "a.txt")
    assert alone == read(folder)[0] == [Note("ward/a", "Pt with CA.\r\n", {})]
    monkeypatch.chdir(folder)
    assert read(Path("a.txt"))[0] == read(Path())[0] == alone


def test_a_folder_may_mix_formats(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path / "mixed", {"c.txt": "text", "LICENSE": "ignored"})
    write_jsonl(folder / "b.jsonl", [{"id": "1", "text": "json"}])
    write_noteevents(folder / "a.csv")
    notes, report = read(folder)
    assert [note.id for note in notes] == ["mimic3/901", "mimic3/902", "mimic3/904", "b/1", "mixed/c"]
    assert report.warnings == {"file of another type ignored": 1}
    assert [note.id for note in read(folder, format="jsonl")[0]] == ["b/1"]


def test_a_folder_that_links_back_to_itself_is_read_once(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path / "ward", {"a.txt": "one"})
    (folder / "again").symlink_to(folder, target_is_directory=True)
    assert len(read(folder)[0]) == 1


@pytest.mark.parametrize("writer", [write_noteevents, write_mimic4, write_jsonl])
def test_gzip_equals_plain_whatever_the_name(tmp_path: Path, writer: object) -> None:
    assert callable(writer)
    plain, zipped, disguised = (tmp_path / name / "notes.csv" for name in ("plain", "zipped", "disguised"))
    for path in (plain, zipped, disguised):
        path.parent.mkdir()
    suffix = ".jsonl" if writer is write_jsonl else ".csv"
    paths = [
        writer(plain.with_suffix(suffix)),
        writer(zipped.with_suffix(suffix + ".gz"), gzip=True),
        writer(disguised.with_suffix(suffix), gzip=True),
    ]
    expected, *others = [read(path)[0] for path in paths]
    assert expected
    assert others == [expected, expected]


def test_formats_are_found_by_name_and_by_content(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    texts = [{"id": "1", "text": "note"}]
    expected = {
        write_noteevents(tmp_path / "any.csv"): "mimic3",
        write_noteevents(tmp_path / "any"): "mimic3",
        write_mimic4(tmp_path / "radiology.csv.gz", gzip=True): "mimic4",
        write_csv(tmp_path / "notes.csv", texts): "csv",
        write_csv(tmp_path / "notes.dat", texts): "csv",
        write_csv(tmp_path / "notes.TSV", texts, delimiter="\t"): "tsv",
        write_csv(tmp_path / "wrong.csv", texts, delimiter="\t"): "tsv",
        write_jsonl(tmp_path / "notes.ndjson"): "jsonl",
        write_jsonl(tmp_path / "notes.json.gz", gzip=True): "jsonl",
        write_jsonl(tmp_path / "unnamed"): "jsonl",
        write_parquet(tmp_path / "n.pq", {"text": ["a"]}): "parquet",
        write_parquet(tmp_path / "n", {"text": ["a"]}): "parquet",
        write_bytes(tmp_path / "a.txt", b"id,text\n"): "text",
        write_bytes(tmp_path / "a.note", b"HPI: Pt with DM, text and more.\n"): "text",
    }
    assert {path: detect_format(path) for path in expected} == expected


def test_two_columns_cannot_both_be_the_category() -> None:
    with pytest.raises(InputError, match="--category-column"):
        Columns(category="kind", metadata=("category",))


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """The rest of each file is damaged; a reader that ran ahead would trip over it."""
    rows = [{"id": str(number), "text": "word " * 200} for number in range(4000)]
    csv_path = write_csv(tmp_path / "n.csv.gz", rows, gzip=True)
    jsonl_path = write_jsonl(tmp_path / "n.jsonl.gz", rows, gzip=True)
    for path in (csv_path, jsonl_path):
        path.write_bytes(path.read_bytes()[:-1000])
        notes = read_notes(path, report=(report := ReadReport()))
        assert next(notes).id == "n/0"
        assert report.n_seen == 1
        notes.close()  # type: ignore[attr-defined]


def test_a_long_file_is_never_held_in_memory(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import tracemalloc

    rows = [{"id": str(number), "text": f"{number} " + "word " * 400} for number in range(4000)]  # 8 MB
    columns = {"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]}
    paths = [
        write_csv(tmp_path / "n.csv", rows),
        write_jsonl(tmp_path / "n.jsonl", rows),
        write_parquet(tmp_path / "n.parquet", columns),
    ]
    del rows, columns
    for path in paths:
        tracemalloc.start()
        assert sum(1 for _ in read_notes(path, report=ReadReport())) == 4000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000, path.name


texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), min_size=1)


@settings(max_examples=50)
@given(texts)
def test_any_texts_come_back_equal_and_in_order(written: list[str]) -> None:
    pytest.importorskip("pyarrow")
    rows = [{"id": str(number), "text": text} for number, text in enumerate(written)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            write_csv(Path(folder) / "n.csv", rows),
            write_csv(Path(folder) / "n.crlf.csv", rows, newline="\r\n"),
            write_csv(Path(folder) / "n.tsv", rows, delimiter="\t"),
            write_jsonl(Path(folder) / "n.jsonl", rows),
            write_parquet(
                Path(folder) / "n.parquet", {"id": list(map(str, range(len(rows)))), "text": written}
            ),
        ]
        for path in paths:
            notes, report = read(path)
            assert [note.text for note in notes] == written, path.name
            assert report.n_skipped == 0
            assert not report.warnings


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.none() | st.text("Ab: ", max_size=5), st.text("xy\n \r", max_size=6)), max_size=6)
)
def test_joined_sections_touch_and_cover(parts: list[tuple[str | None, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        document = {"id": "a/b", "sections": [{"header": header, "text": text} for header, text in parts]}
        notes, report = read(write_jsonl(Path(folder) / "n.jsonl", [document]))
    if not any(text.strip() for _, text in parts):
        assert report.skipped == {"empty note": 1}
        return
    text, sections = notes[0].text, notes[0].sections
    assert sections is not None
    assert len(sections) == len(parts)
    assert [section.start for section in sections] == [0, *(section.end for section in sections[:-1])]
    assert sections[-1].end == len(text)
    for section, (header, body) in zip(sections, parts, strict=True):
        assert text[section.body_start : section.end] == body + "\n"
        assert (section.header is None) == (not (header or "").strip(": "))
        assert (section.name == "") == (section.header is None)


def test_a_report_counts_rows_and_keeps_the_first_place_of_each_reason() -> None:
    report = ReadReport(n_read=3)
    report.skip("empty note", 7, path=Path("folder/notes.csv"))
    report.skip("empty note", 9, path=Path("folder/notes.csv"))
    report.warn("invalid UTF-8 replaced")
    assert (report.n_seen, report.n_read, report.n_skipped) == (5, 3, 2)
    assert json.loads(json.dumps(report.to_dict())) == {
        "n_read": 3,
        "skipped": {"empty note": 2},
        "warnings": {"invalid UTF-8 replaced": 1},
        "first_seen": {"empty note": "notes.csv:7", "invalid UTF-8 replaced": ""},
    }


def test_ids_of_one_file_are_never_those_of_another(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        rows = [
            {"id": "", "text": "one"},
            {"id": f"{folder}:notes:1", "text": "two"},
            {"id": "b/notes", "text": "x"},
        ]
        write_csv(tmp_path / folder / "notes.csv", rows)
        write_csv(tmp_path / folder / f"plain_{folder}.csv", [{"text": "three"}], columns=("text", "x"))
    write_csv(tmp_path / "b.csv", [{"id": "notes", "text": "four"}, {"id": "notes/b/notes", "text": "five"}])
    both = [read(tmp_path / name)[0] for name in ("a", "b/notes.csv", "b.csv")]
    ids = [note.id for notes in both for note in notes if note.text != "x"]
    assert len(set(ids)) == len(ids) == 7


@pytest.mark.parametrize("n_per_part", [1, 3, 4, 10])
@pytest.mark.parametrize("block", [1, 3, 100])
def test_ids_that_repeat_are_counted_in_any_number_of_blocks_and_parts(block: int, n_per_part: int) -> None:
    ids = [f"notes/{number}" for number in (1, 2, 3, 4, 2, 5, 5, 6, 1, 1)]
    whole = ReadReport(ids=_SeenIds(block=block))
    for start in range(0, len(ids), n_per_part):
        part = ReadReport.of_part()
        for note_id in ids[start : start + n_per_part]:
            part.ids.add(note_id)
        whole.merge(part)
    saved = whole.to_dict()
    assert saved["warnings"] == {"id of an earlier note": 4}
    assert saved["first_seen"]["id of an earlier note"] == "notes/2"


def test_text_of_another_encoding_is_read(tmp_path: Path) -> None:
    rows = "id;text\n1;Müller, 5 µg – “ok”\n"
    for encoding in ("cp1252", "utf-16", "utf-16-le", "latin-1"):
        text = rows if encoding != "latin-1" else rows.replace("– “ok”", "")
        (tmp_path / "notes.csv").write_bytes(text.encode(encoding))
        notes, report = read(tmp_path / "notes.csv", columns=Columns(encoding=encoding, delimiter=";"))
        assert [note.text for note in notes] == [text.split(";")[-1].strip("\n")]
        assert not report.warnings
    (tmp_path / "note.txt").write_bytes(b"5 \xb5g \x81")  # cp1252 has no 0x81
    notes, report = read(tmp_path / "note.txt", columns=Columns(encoding="cp1252"))
    assert notes[0].text == "5 µg \ufffd"
    assert report.warnings == {"invalid UTF-8 replaced": 1}


@pytest.mark.parametrize("name", ["notes.csv", "notes.txt", "notes"])
def test_a_delimiter_makes_a_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("note_id|note_text\n7|a, b\n")
    notes, _ = read(tmp_path / name, columns=Columns(delimiter="|"))
    assert [(note.id, note.text) for note in notes] == [("notes/7", "a, b")]


def test_bytes_read_end_at_the_size_of_the_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_csv(tmp_path / "a.csv", [{"id": "1", "text": "x" * 5000}], gzip=False)
    write_csv(tmp_path / "b.csv.gz", [{"id": "1", "text": "x" * 5000}], gzip=True)
    write_parquet(tmp_path / "c.parquet", {"id": ["1"], "text": ["x"]})
    _, report = read(tmp_path)
    assert report.n_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def read_in_parts(path: Path, *, part_bytes: int) -> tuple[list[Note], dict[str, Any], int]:
    """Read each part by itself, as several processes do; return the notes, the account and the number of parts."""
    whole, notes, n_parts = ReadReport(), [], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "PART_BYTES", part_bytes)
        for lot in cut_notes([path], format="auto", columns=Columns()):
            n_parts += 1
            report = ReadReport.of_part()
            for listed in lot:
                notes += read_listed(listed, format="auto", columns=Columns(), report=report)
            whole.merge(report)
    return notes, whole.to_dict(), n_parts


@given(
    st.lists(st.sampled_from([*'",\n\rab é', '"', '"', "\n", "\r\n", '""', ',"', '",', '"\n', "1,"])).map(
        "".join
    ),
    st.booleans(),
    st.integers(1, 12),
)
@settings(max_examples=500)
def test_a_table_in_parts_is_the_table(content: str, is_quoted: bool, part_bytes: int) -> None:
    """Whatever is in it: stray quotes, carriage returns, blank lines, a quote never closed, no last line break."""
    header = '"id","text"\r\n' if is_quoted else "text,x\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "notes.csv")
        path.write_bytes((header + content).encode())
        whole, report = read(path)
        notes, in_parts, _ = read_in_parts(path, part_bytes=part_bytes)
    assert notes == whole
    assert in_parts == report.to_dict()


def test_rows_as_they_should_be_are_cut_at_every_row(tmp_path: Path) -> None:
    """Line breaks, quotes and commas in fields, rows that end in \\r\\n, and ids that are row numbers."""
    texts = [f'line {n}\n"quoted, {n}"\n\n""' for n in range(50)]
    rows = [{"text": text, "x": "a\r\nb"} for text in texts]
    path = write_csv(tmp_path / "notes.csv", rows, columns=("text", "x"), newline="\r\n")
    notes, _, n_parts = read_in_parts(path, part_bytes=1)
    assert [note.text for note in notes] == texts
    assert [note.id.rpartition(":")[2] for note in notes] == [str(n) for n in range(1, 51)]
    assert n_parts == 51


def test_a_bad_row_of_a_later_part_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text('id,text\n1,"two\nlines"\n\n2,b\n3\n4,d\n')
    _, report, n_parts = read_in_parts(path, part_bytes=1)
    assert (report["skipped"], report["first_seen"]) == (
        {"too few fields": 1},
        {"too few fields": "notes.csv:6"},
    )
    assert n_parts == 6


def test_a_quote_never_closed_is_refused_where_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MAX_NOTE_CHARS", 100)
    path = tmp_path / "notes.csv"
    path.write_text("id,text\n1,a\n2,b\n3," + '"' + "word\n" * 100)
    with pytest.raises(InputError, match=r"notes.csv, line 4: a field is longer than 100 characters"):
        read_in_parts(path, part_bytes=1)


@given(
    st.lists(
        st.sampled_from(
            [
                '{"id": "1", "text": "a"}',
                '{"text": "b\\n"}',
                "",
                " \t",
                "[]",
                "{",
                '{"id": 3}',
                '{"text": ""}',
                "\r",
            ]
        )
    ),
    st.booleans(),
    st.integers(1, 60),
)
@settings(max_examples=200)
def test_json_lines_in_parts_are_the_json_lines(lines: list[str], ends: bool, part_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "notes.jsonl")
        path.write_text("\n".join([*lines, '{"id": 7, "text": "last"}']) + "\n" * ends)
        whole, report = read(path)
        notes, in_parts, _ = read_in_parts(path, part_bytes=part_bytes)
    assert notes == whole
    assert in_parts == report.to_dict()


def test_lines_without_any_document_are_refused_in_parts_too(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("[1]\n" * 20)
    with pytest.raises(InputError, match="none of its 20 lines is a JSON object"):
        read_in_parts(path, part_bytes=10)


def test_row_groups_of_parquet_are_parts(tmp_path: Path) -> None:
    columns = {"text": [f"note {n}" if n % 4 else "" for n in range(20)], "category": ["x"] * 20}
    path = write_parquet(tmp_path / "notes.parquet", columns, row_group_size=3)
    whole, report = read(path)
    notes, in_parts, n_parts = read_in_parts(path, part_bytes=1)
    assert (notes, in_parts, n_parts) == (whole, report.to_dict(), 7)


def test_files_of_a_folder_share_lots_in_order(tmp_path: Path) -> None:
    write_text_folder(tmp_path / "notes", {f"{n}.txt": f"note {n}" if n % 3 else "" for n in range(9)})
    write_csv(tmp_path / "notes" / "4.csv", [{"id": str(n), "text": f"row {n}"} for n in range(9)])
    (tmp_path / "notes" / "5.png").write_bytes(b"x")
    write_csv(tmp_path / "notes" / "6.csv", [{"id": "z", "text": "packed"}], gzip=True)
    whole, report = read(tmp_path / "notes")
    for part_bytes, least in ((1, 10), (20, 6), (10_000, 1)):
        notes, in_parts, n_parts = read_in_parts(tmp_path / "notes", part_bytes=part_bytes)
        assert notes == whole
        assert in_parts == report.to_dict()
        assert n_parts >= least
