"""`lmcells export`: from annotations to the files of each tool, and how it refuses."""

import json
from pathlib import Path

import pytest

from integrations.ward import build_ward, ward_notes
from lmcells.cli.main import main
from lmcells.integrations.omop import NO_NUMBER
from note_files import write_csv
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    settings = build_ward(folder)
    notes = [{"note_id": number, "note_text": note["text"]} for number, note in enumerate(ward_notes(12))]
    write_csv(folder / "note.csv", notes, columns=("note_id", "note_text"))
    model = ["--model", str(settings.model), "--only-inventory", str(settings.only_inventory)]
    for suffix in ("jsonl", "csv", "parquet"):
        output = str(folder / f"out.{suffix}")
        assert main(["annotate", str(folder / "note.csv"), "--output", output, *model]) == 0
    return folder


@pytest.fixture
def elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, while what is written by a relative path goes to another."""
    monkeypatch.chdir(tmp_path)
    return folder


def export(folder: Path, annotations: str, *arguments: str) -> int:
    return main(["export", str(folder / annotations), "--notes", str(folder / "note.csv"), *arguments])


@pytest.mark.parametrize(
    ("to", "output"),
    [
        ("brat", "brat"),
        ("doccano", "d.jsonl"),
        ("label-studio", "tasks.json"),
        ("omop", "note_nlp.csv"),
        ("omop", "note_nlp.jsonl"),
    ],
)
def test_every_format_of_annotations_gives_the_same(
    folder: Path, tmp_path: Path, to: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = []
    for suffix in ("jsonl", "csv", "parquet"):
        target = tmp_path / suffix / output
        target.parent.mkdir()
        date = ["--nlp-date", "2026-01-31"] if to == "omop" else []
        assert export(folder, f"out.{suffix}", "--to", to, "--output", str(target), *date) == 0
        files = sorted(path for path in target.parent.rglob("*") if path.is_file())
        contents.append([path.read_bytes() for path in files])
        assert "notes read" in capsys.readouterr().out
    assert contents[0] == contents[1] == contents[2]
    assert all(len(content) > 0 for content in contents[0] if to != "brat")


def test_omop_is_what_annotate_writes_itself(folder: Path, tmp_path: Path) -> None:
    date = ["--nlp-date", "2026-01-31T10:00"]
    exported, annotated = tmp_path / "a.parquet", tmp_path / "b.parquet"
    assert export(folder, "out.csv", "--to", "omop", "--output", str(exported), *date) == 0
    model = ["--model", str(folder / "model"), "--only-inventory", str(folder / "inventory.csv")]
    direct = ["annotate", str(folder / "note.csv"), "--output", str(annotated), "--output-format", "omop"]
    assert main([*direct, *model, *date]) == 0
    assert exported.read_bytes() == annotated.read_bytes()


@pytest.mark.parametrize("ids", [("7", "x-8", "x-9"), ("a", "b")])
def test_notes_whose_ids_are_no_numbers_are_left_out_of_omop(
    folder: Path, ids: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, rows, output = (str(tmp_path / name) for name in ("n.csv", "rows.jsonl", "out.csv"))
    write_csv(tmp_path / "n.csv", [{"id": each, "text": "PT"} for each in ids], columns=("id", "text"))
    model = ["--model", str(folder / "model"), "--only-inventory", str(folder / "inventory.csv")]
    assert main(["annotate", notes, "--output", rows, *model]) == 0
    capsys.readouterr()
    code = main(["export", rows, "--notes", notes, "--to", "omop", "--output", output, "--json"])
    if "7" not in ids:
        assert_refused(code, capsys, command="export", message="none of 2 is one, the first is 'n/a'")
        assert not list(tmp_path.glob("out*"))
        return
    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["n_read"], printed["n_written"]) == (0, 3, 1)
    assert printed["warnings"] == {NO_NUMBER: 2}
    assert printed["first_seen"] == {NO_NUMBER: "n/x-8"}
    assert [row.split(",")[:2] for row in Path(output).read_text().splitlines()[1:]] == [["1", "7"]]


def test_only_an_export_is_replaced(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["out.csv", "--to", "brat", "--output", str(tmp_path / "brat")]
    assert export(folder, *asked) == 0
    assert export(folder, *asked, "--overwrite") == 0
    (tmp_path / "brat" / "documents.tsv").unlink()
    capsys.readouterr()
    code = export(folder, *asked, "--overwrite")
    assert_refused(code, capsys, command="export", message="is not an export for brat")
    (tmp_path / "tasks.xml").write_text("kept")
    asked = ["out.csv", "--to", "label-studio", "--output", str(tmp_path / "tasks.json")]
    code = export(folder, *asked)
    assert_refused(code, capsys, command="export", message="tasks.xml already exists")
    assert export(folder, *asked, "--overwrite") == 0
    assert (tmp_path / "tasks.xml").read_text() != "kept"


def test_machines_get_json(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "d.jsonl")
    assert export(folder, "out.csv", "--to", "doccano", "--output", output, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["output"], printed["n_written"], printed["n_read"]) == (output, 12, 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["out.csv", "--to", "doccano", "--output", "d.txt"], "for doccano the name must end in .jsonl"),
        (["out.csv", "--to", "label-studio", "--output", "d.txt"], "the name must end in .json"),
        (["out.csv", "--to", "omop", "--output", "d.txt"], "the name must end in .jsonl, .csv, .parquet"),
        (["absent.csv", "--to", "brat", "--output", "b"], "does not exist"),
        (["note.csv", "--to", "brat", "--output", "b"], "row 1 is not an expansion"),
        (["out.csv", "--to", "brat", "--output", "b", "--nlp-date", "2026-01-01"], "is only for --to omop"),
        (["out.csv", "--to", "omop", "--output", "b.csv", "--nlp-date", "x"], "found 'x'"),
        (["out.csv", "--to", "brat", "--output", "b", "--id-column", "absent"], "no column 'absent'"),
        (["out.csv", "--to", "doccano", "--output", "no/where/d.jsonl"], "cannot be written"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    elsewhere: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(export(elsewhere, *arguments), capsys, command="export", message=message)
