"""Damaged and hostile files: one clear line or a counted reason, never a traceback, never a lost note."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lmcells.errors import FormatError, InputError, MissingExtra
from lmcells.notes.note import Note
from lmcells.notes.readers import FORMATS, Columns, ReadReport, detect_format, opening, read_notes
from note_files import write_bytes, write_csv, write_jsonl, write_noteevents, write_parquet, write_text_folder

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
ODD_TEXTS = [b'"', b"{", b",,,\n,,,\n", b"\xff" * 100]


def read(path: Path, **options: Any) -> tuple[list[Note], ReadReport]:
    report = ReadReport()
    return list(read_notes(path, report=report, **options)), report


def refusal(path: Path, **options: Any) -> str:
    """The message a file is refused with: one line that names the file."""
    with pytest.raises(InputError) as refused:
        read(path, **options)
    message = str(refused.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_an_unknown_format_is_refused_with_the_allowed_ones(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "n.csv", [])
    with pytest.raises(FormatError, match=r"'jsnl'.*Allowed: auto, mimic3.*Nearest: 'jsonl'"):
        read_notes(path, format="jsnl", report=ReadReport())


def test_a_missing_path_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_notes(tmp_path / "nothing.csv", report=ReadReport())
    with pytest.raises(InputError, match="cannot be read"):
        detect_format(tmp_path / "nothing.csv")


@pytest.mark.parametrize("name", ["n.csv", "n.tsv", "n.jsonl", "n.parquet", "n.txt", "n"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n \n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    message = refusal(write_bytes(tmp_path / name, content))
    assert "is empty" in message or "not a Parquet file" in message or "no column" in message


@pytest.mark.parametrize("name", ["n.csv.gz", "n.jsonl.gz", "n.txt.gz"])
def test_nothing_inside_gzip_is_an_empty_file(tmp_path: Path, name: str) -> None:
    assert "is empty" in refusal(write_bytes(tmp_path / name, b"", gzip=True))


def test_empty_files_of_a_folder_are_counted(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path / "ward", {"a.txt": "", "b.txt": "note", "c.txt": " \n", "d.csv": ""})
    notes, report = read(folder)
    assert [note.id for note in notes] == ["ward/b"]
    assert report.skipped == {"empty note": 2, "empty file": 1}
    assert report.first_seen == {"empty note": "a.txt", "empty file": "d.csv"}


def test_a_folder_without_notes_is_refused(tmp_path: Path) -> None:
    write_text_folder(tmp_path / "ward", {"README.md": "x", "n.csv": "text\nx\n"})
    assert ".jsonl, .ndjson" in refusal(tmp_path / "ward", format="jsonl")
    assert "no files of notes" in refusal(write_text_folder(tmp_path / "other", {"README.md": "x"}))


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (Columns(text="body"), r"'body' (set by --text-column)"),
        (Columns(id="key"), r"'key' (set by --id-column)"),
        (Columns(category="kind"), r"'kind' (set by --category-column)"),
        (Columns(metadata=("site",)), r"'site' (set by --metadata-column)"),
    ],
)
def test_a_missing_column_is_named_with_those_found(tmp_path: Path, columns: Columns, named: str) -> None:
    pytest.importorskip("pyarrow")
    csv_path = write_csv(tmp_path / "n.csv", [{"id": "1", "text": "x"}], columns=("id", "text", "note type"))
    parquet_path = write_parquet(tmp_path / "n.parquet", {"id": ["1"], "text": ["x"], "note type": ["x"]})
    for path in (csv_path, parquet_path):
        message = refusal(path, columns=columns)
        assert named in message
        assert "columns found: id, text, note type" in message


def test_a_table_without_text_says_how_to_name_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    csv_path = write_csv(tmp_path / "n.csv", [{"id": "1", "body": "x"}], columns=("id", "body"))
    jsonl_path = write_jsonl(tmp_path / "n.jsonl", [{"id": "1", "body": "x"}])
    parquet_path = write_parquet(tmp_path / "n.parquet", {"id": ["1"], "body": ["x"]})
    for path in (csv_path, jsonl_path, parquet_path):
        message = refusal(path)
        assert "no column 'text'" in message
        assert "columns found: id, body" in message
        assert "--text-column" in message


def test_a_mimic_table_needs_its_ids(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "n.csv", [{"text": "x"}], columns=("text", "category"))
    assert "'row_id', which every mimic3 file has" in refusal(path, format="mimic3")


def test_a_table_without_header_never_shows_its_notes(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "n.csv", b"17,Patient Smith has MS\n18,Patient Jones has PE\n")
    message = refusal(path)
    assert "Smith" not in message
    assert "does not look like a row of column names" in message


@pytest.mark.parametrize("name", ["n.csv", "n.jsonl", "n.txt", "n.parquet"])
def test_invalid_utf8_is_replaced_and_counted_once_a_note(tmp_path: Path, name: str) -> None:
    bad = b"caf\xe9 and \xff\xfe, fine: \xc3\xa9"
    path = tmp_path / name
    if name == "n.csv":
        write_bytes(path, b"id,text\n1," + bad[:-9].replace(b",", b"") + b"\n2,caf\xc3\xa9\n")
    elif name == "n.jsonl":
        write_bytes(path, b'{"id": "1", "text": "' + bad + b'"}\n{"id": "2", "text": "caf\xc3\xa9"}\n')
    elif name == "n.txt":
        write_bytes(path, bad)
    else:
        pa = pytest.importorskip("pyarrow")
        values = pa.array([bad, "café".encode()], pa.binary()).view(pa.string())
        write_parquet(path, {"id": ["1", "2"], "text": values})
    notes, report = read(path)
    assert notes[0].text.startswith("caf\ufffd and \ufffd\ufffd")
    assert [note.text for note in notes[1:]] in ([], ["café"])
    assert report.warnings == {"invalid UTF-8 replaced": 1}
    assert report.n_skipped == 0
    for note in notes:
        note.text.encode()


def test_lone_surrogates_of_json_are_replaced(tmp_path: Path) -> None:
    path = write_bytes(
        tmp_path / "n.jsonl", rb'{"id": "\ud800", "text": "a \ud83d\ude00 b \udc80 c", "category": "\udfff"}'
    )
    notes, report = read(path)
    assert notes == [Note("n/\ufffd", "a \U0001f600 b \ufffd c", {"category": "\ufffd"})]
    assert report.warnings == {"invalid UTF-8 replaced": 1}


@pytest.mark.parametrize("name", ["n.csv", "n.jsonl", "n.txt"])
def test_a_byte_order_mark_is_no_part_of_the_note(tmp_path: Path, name: str) -> None:
    content = {
        "n.csv": b'"id","text"\n1,note\n',
        "n.jsonl": b'{"id": "1", "text": "note"}',
        "n.txt": b"note",
    }[name]
    for gzip in (False, True):
        path = write_bytes(tmp_path / (name + ".gz" * gzip), b"\xef\xbb\xbf" + content, gzip=gzip)
        assert [note.text for note in read(path)[0]] == ["note"]


def test_utf16_is_read_from_text_files_and_refused_elsewhere(tmp_path: Path) -> None:
    note = "Pt with RA, café"
    assert read(write_bytes(tmp_path / "n.txt", note.encode("utf-16")))[0][0].text == note
    assert read(write_bytes(tmp_path / "n32.txt", note.encode("utf-32")))[0][0].text == note
    for name in ("n.csv", "n.tsv", "n.jsonl"):
        assert "UTF-16" in refusal(write_bytes(tmp_path / name, "id,text\n1,x\n".encode("utf-16")))


def test_nul_bytes_are_kept(tmp_path: Path) -> None:
    text = "a\x00b \x00"
    csv_path = write_bytes(tmp_path / "n.csv", f'id,text\n1,{text}\n2,"{text}"\n'.encode())
    raw_json = write_bytes(
        tmp_path / "n.jsonl", f'{{"text": "{text}"}}\n{{"text": "a\\u0000b \\u0000"}}'.encode()
    )
    text_path = write_bytes(tmp_path / "n.txt", text.encode())
    for path in (csv_path, raw_json, text_path):
        notes, report = read(path)
        assert {note.text for note in notes} == {text}
        assert report.n_skipped == 0


def test_a_line_of_two_megabytes_is_a_note(tmp_path: Path) -> None:
    text = "word " * 400_000
    for path in (
        write_csv(tmp_path / "n.csv", [{"id": "1", "text": text}]),
        write_jsonl(tmp_path / "n.jsonl", [{"id": "1", "text": text}]),
        write_text_folder(tmp_path, {"n.txt": text}) / "n.txt",
    ):
        assert read(path)[0][0].text == text


def test_what_is_longer_than_any_note_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MAX_NOTE_CHARS", 1000)
    long = "word\n" * 1000
    unclosed = write_bytes(tmp_path / "n.csv", b'id,text\n1,fine\n2,"' + long.encode())
    limit = csv.field_size_limit()
    assert "line 3: a field is longer than 1,000 characters" in refusal(unclosed)
    csv.field_size_limit(limit)  # the csv module has one for the process
    lines = [{"id": "1", "text": "a"}, {"id": "2", "text": long}, {"id": "3", "text": "c"}]
    notes, report = read(write_jsonl(tmp_path / "n.jsonl", lines))
    assert [note.text for note in notes] == ["a", "c"]
    assert report.skipped == {"line too long": 1}
    assert report.first_seen == {"line too long": "n.jsonl:2"}
    assert "too long for one note" in refusal(write_bytes(tmp_path / "n.txt", long.encode()))


def test_a_first_line_without_end_is_refused(tmp_path: Path) -> None:
    assert "its first line is over" in refusal(write_bytes(tmp_path / "n.csv", b"x" * 3_000_000))


def test_windows_line_ends_are_kept_inside_notes_and_not_at_row_ends(tmp_path: Path) -> None:
    path = write_bytes(
        tmp_path / "n.csv", b'id,category,text,site\r\n1,ED,"two\r\nlines",north\r\n2,ED,one,south\r\n'
    )
    notes, _ = read(path, columns=Columns(metadata=("site",)))
    assert [(note.text, note.metadata["site"]) for note in notes] == [
        ("two\r\nlines", "north"),
        ("one", "south"),
    ]
    jsonl = write_bytes(tmp_path / "n.jsonl", b'{"text": "one"}\r\n\r\n{"text": "two"}\r\n')
    assert [note.text for note in read(jsonl)[0]] == ["one", "two"]


@pytest.mark.parametrize("name", ["n.csv", "n.jsonl", "n.txt", "n"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "header"])
def test_a_damaged_gzip_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    rows = [{"id": str(number), "text": f"note {number * 7919}"} for number in range(5000)]
    path = tmp_path / f"{name}.gz"
    write = write_jsonl if name == "n.jsonl" else write_csv
    content = bytearray(write(path, rows, gzip=True).read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    else:
        content[2] = 0
    path.write_bytes(bytes(content))
    assert "truncated or damaged gzip" in refusal(path)


def test_rows_with_the_wrong_number_of_fields_are_counted(tmp_path: Path) -> None:
    content = b'id,text\n1,"two\nlines"\n2\n3,a,b\n\n4,fine\n5\n'
    notes, report = read(write_bytes(tmp_path / "n.csv", content))
    assert [note.id for note in notes] == ["n/1", "n/4"]
    assert report.skipped == {"too few fields": 2, "too many fields": 1}
    assert report.first_seen == {"too few fields": "n.csv:4", "too many fields": "n.csv:5"}
    assert report.n_seen == 5


def test_a_quote_that_is_never_closed_is_counted(tmp_path: Path) -> None:
    for end in (b"", b"\n"):
        content = b'id,text\n1,fine\n2,"cut off in the mid' + end
        notes, report = read(write_bytes(tmp_path / "n.csv", content))
        assert [note.text for note in notes] == ["fine"]
        assert report.skipped == {"quote never closed": 1}
        assert report.first_seen == {"quote never closed": "n.csv:3"}


def test_a_last_row_without_line_end_is_read(tmp_path: Path) -> None:
    notes, report = read(write_bytes(tmp_path / "n.csv", b'id,text\n1,one\n2,"two"'))
    assert [note.text for note in notes] == ["one", "two"]
    assert report.n_skipped == 0


def test_a_bare_carriage_return_costs_one_row(tmp_path: Path) -> None:
    notes, report = read(write_bytes(tmp_path / "n.csv", b'id,text\n1,one\n2,a\rb\n3,"c\rd"\n'))
    assert [note.text for note in notes] == ["one", "c\rd"]
    assert report.skipped == {"carriage return outside quotes": 1}
    assert report.first_seen == {"carriage return outside quotes": "n.csv:3"}
    assert "cannot be parsed" in refusal(write_bytes(tmp_path / "mac.csv", b"id,text\r1,one\r"), format="csv")


def test_withdrawn_and_empty_rows_add_up(tmp_path: Path) -> None:
    rows = [{"ROW_ID": number, "TEXT": text} for number, text in enumerate(["a", "", " \n", "b"])]
    notes, report = read(write_noteevents(tmp_path / "NOTEEVENTS.csv", rows))
    assert (len(notes), report.skipped, report.n_seen) == (2, {"empty note": 2}, 4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"id": ' + b"9" * 5000 + b', "text": "a"}', "not JSON"),
        (b'["a", "b"]', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "no text"),
        (b'{"id": "1", "txt": "a"}', "no text"),
        (b'{"id": "1", "text": null}', "empty note"),
        (b'{"id": "1", "text": "  "}', "empty note"),
        (b'{"id": "1", "sections": []}', "empty note"),
        (b'{"id": "1", "sections": null}', "empty note"),
        (b'{"id": "1", "sections": [{"header": "HPI", "text": ""}]}', "empty note"),
        (b'{"id": "1", "text": 7}', "text is not a string"),
        (b'{"id": ["1"], "text": "a"}', "id is not a string or a number"),
        (b'{"id": "1", "sections": "a"}', "malformed sections"),
        (b'{"id": "1", "sections": ["a"]}', "malformed sections"),
        (b'{"id": "1", "sections": [{"header": 1, "text": "a"}]}', "malformed sections"),
    ],
)
def test_a_line_without_a_note_is_counted_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    content = b'{"text": "a"}\n' + line + b"\n" + line + b'\n{"text": "b"}\n'
    notes, report = read(write_bytes(tmp_path / "n.jsonl", content))
    assert [note.text for note in notes] == ["a", "b"]
    assert report.skipped == {reason: 2}
    assert report.first_seen == {reason: "n.jsonl:2"}


def test_metadata_that_json_objects_lack_is_a_warning(tmp_path: Path) -> None:
    documents: list[dict[str, Any]] = [
        {"text": "a", "site": "x"},
        {"text": "b"},
        {"text": "c", "site": ["x"]},
    ]
    notes, report = read(write_jsonl(tmp_path / "n.jsonl", documents), columns=Columns(metadata=("site",)))
    assert [dict(note.metadata) for note in notes] == [{"site": "x"}, {}, {}]
    assert report.warnings == {
        "no 'site' (--metadata-column)": 1,
        "'site' is not a string or a number: left out": 1,
    }


def test_a_json_array_is_refused_with_the_way_out(tmp_path: Path) -> None:
    array = json.dumps([{"id": "1", "text": "a"}], indent=1).replace("{", "{\n").encode()
    assert "jq -c" in refusal(write_bytes(tmp_path / "n.json", array))


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\x00" * 50 + b"PAR1", b"id,text\n1,x\n"])
def test_what_is_not_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pyarrow")
    assert "Parquet" in refusal(write_bytes(tmp_path / "n.parquet", content))


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "n.parquet", {"text": [f"note {number}" for number in range(1000)]})
    content = path.read_bytes()
    assert "damaged Parquet" in refusal(write_bytes(path, content[: len(content) // 2]))
    assert "damaged Parquet" in refusal(write_bytes(path, content[:4] + b"\xff" * 200 + content[204:]))
    assert "gunzip" in refusal(write_bytes(tmp_path / "n.parquet.gz", content, gzip=True))


def test_parquet_columns_of_the_wrong_type_are_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert "'text' holds int64" in refusal(write_parquet(tmp_path / "a.parquet", {"text": [1]}))
    assert "'sections' holds list<" in refusal(write_parquet(tmp_path / "b.parquet", {"sections": [["a"]]}))
    nested = write_parquet(tmp_path / "c.parquet", {"text": ["a"], "category": [["x"]]})
    assert "--category-column" in refusal(nested)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bytes(tmp_path / "n.parquet", b"PAR1")
    monkeypatch.delitem(sys.modules, "lmcells.notes.readers.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"lmcells\[parquet\]"):
        read(path)


def test_binary_files_are_no_notes(tmp_path: Path) -> None:
    assert "binary file" in refusal(write_bytes(tmp_path / "scan.txt", PNG))
    assert "binary file" in refusal(write_bytes(tmp_path / "scan", PNG))
    assert "zip file" in refusal(write_bytes(tmp_path / "n.zip", b"PK\x03\x04" + PNG))
    for name in ("n.csv", "n.tsv", "n.jsonl"):
        refusal(write_bytes(tmp_path / name, PNG))
    folder = write_text_folder(tmp_path / "ward", {"b.txt": "note"})
    write_bytes(folder / "a.txt", PNG)
    notes, report = read(folder)
    assert [note.id for note in notes] == ["ward/b"]
    assert report.skipped == {"binary file": 1}


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "auto"])
@pytest.mark.parametrize("content", [PNG, b"\x00" * 5000, b"\r\r\r", *ODD_TEXTS])
def test_no_bytes_in_any_format_end_in_a_traceback(tmp_path: Path, format_: str, content: bytes) -> None:
    path = write_bytes(tmp_path / "n.bin", content)
    if format_ == "text" and content in ODD_TEXTS:
        assert read(path, format="text")[1].n_read == 1
    else:
        refusal(path, format=format_)


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path / "ward", {"a.txt": "note"})
    (folder / "b.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(InputError, match=r"b\.txt cannot be read"):
        read(folder)


def test_messages_and_reports_never_hold_note_text(tmp_path: Path) -> None:
    secret = "SECRETNAME"
    content = f'id,text\n1,"{secret}"\n2,{secret},x\n3\n4,"{secret}'.encode() + b"\xff"
    notes, report = read(write_bytes(tmp_path / "n.csv", content))
    assert secret not in json.dumps(report.to_dict())
    assert secret not in repr(notes)


def test_a_link_to_a_pipe_is_passed_over_as_a_pipe_is(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path / "notes", {"a.txt": "Pt in PT."})
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(folder / "b.txt")
    (folder / "c.txt").symlink_to(tmp_path / "pipe")
    notes, report = read(folder)
    assert ([note.id for note in notes], report.n_seen) == (["notes/a"], 1)
    (folder / "d.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"d\.txt cannot be read"):
        read(folder)


def test_an_encoding_that_encodes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="encoding: found 'undefined'"):
        Columns(encoding="undefined")
