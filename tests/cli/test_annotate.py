"""`lmcells annotate`: what it prints, and how it refuses."""

import json
from pathlib import Path

import pytest

from integrations.ward import build_ward, ward_notes
from lmcells.cli.main import main
from note_files import write_jsonl
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("annotate")
    build_ward(folder)
    write_jsonl(folder / "notes.jsonl", [*ward_notes(30), {"id": "ward/empty", "text": ""}])
    return folder


@pytest.fixture
def elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, while what is written by a relative path goes to another."""
    monkeypatch.chdir(tmp_path)
    return folder


def annotate(folder: Path, *arguments: str) -> int:
    model = ["--model", str(folder / "model"), "--only-inventory", str(folder / "inventory.csv")]
    return main(["annotate", str(folder / "notes.jsonl"), *model, *arguments])


def test_exact_counts_are_printed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.csv"
    assert annotate(folder, "--output", str(output), "--threshold", "1") == 0
    printed = {line[2:40].strip(): line[40:].strip() for line in capsys.readouterr().out.splitlines()[1:]}
    assert printed["notes read"] == "30"
    assert printed["skipped: empty note"] == "1 (first at notes.jsonl:31)"
    n_rows = len(output.read_text().splitlines()) - 1
    assert int(printed["short forms found"]) == n_rows
    assert printed["abstained"] == printed["abstained: low_confidence"]
    n_defined = int(printed["expanded by a definition in the note"])
    assert int(printed["expanded by the model"]) + n_defined + int(printed["abstained"]) == n_rows


def test_the_printed_counts_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.txt").write_text("PMH: Pt on XYZ q6h. Known MS.\nBUE DVT.")
    assert main(["annotate", str(tmp_path / "n.txt"), "--output", str(tmp_path / "out.jsonl")]) == 0
    printed = dict(line[2:].rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:])
    assert printed["expanded as a header"] == printed["expanded by the grammar"] == "1"
    parts = [int(n) for name, n in printed.items() if name.startswith(("expanded", "pinned", "abstained "))]
    assert sum(parts) == int(printed["short forms found"])


def test_rules_that_could_never_hold_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.csv").write_text("id,text,ward\n1,Known MS,B2\n")
    (tmp_path / "site.csv").write_text("short_form,long_form,action,ward\nMS,mitral stenosis,pin,B2\n")
    given = ["annotate", str(tmp_path / "notes.csv"), "--inventory", str(tmp_path / "site.csv"), "--output"]
    assert main([*given, str(tmp_path / "out.csv")]) == 0
    printed = capsys.readouterr()
    assert printed.err.endswith("depend on ward, which is not read. Add: --metadata-column ward\n")
    assert "pinned" not in printed.out
    assert main([*given, str(tmp_path / "pinned.csv"), "--metadata-column", "ward"]) == 0
    printed = capsys.readouterr()
    assert (printed.err, "pinned by the inventory" in printed.out) == ("", True)


def test_rules_are_looked_through_without_opening_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.csv").write_text("id,text\n1,Known MS\n")
    (tmp_path / "site.json").write_text(
        '[{"short_form": "MS", "long_form": "multiple sclerosis", "ward": "B2"}]'
    )
    given = ["--inventory", str(tmp_path / "site.json"), "--model", str(tmp_path / "absent")]
    assert main(["annotate", str(tmp_path / "notes.csv"), "--output", str(tmp_path / "out.csv"), *given]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert "depend on ward" in warning
    assert "absent" in error


def test_machines_get_json(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "out.jsonl")
    for _ in range(2):  # the second time nothing is done, and the same is said
        assert annotate(folder, "--output", output, "--json", "--sections", "none") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["output"], report["n_read"], report["skipped"]) == (output, 30, {"empty note": 1})


def test_omop_rows_are_written_when_asked_for(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "note_nlp.csv"
    arguments = ["--output", str(output), "--output-format", "omop", "--nlp-date", "2026-01-31"]
    assert annotate(folder, *arguments) == 0
    assert output.read_text().startswith("note_nlp_id,note_id,")
    assert ",2026-01-31,2026-01-31 00:00:00," in output.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "out.doc"], "must end in .jsonl, .csv, .parquet"),
        (["--output", "out.csv", "--workers", "0"], "--workers: found 0"),
        (["--output", "out.csv", "--model", "absent"], "absent does not exist"),
        (["--output", "out.csv", "--inventory", "absent.csv"], "absent.csv cannot be read"),
        (["--output", "out.csv", "--threshold", "2"], "threshold: found 2.0, allowed: 0 to 1"),
        (["--output", "out.csv", "--text-column", "absent"], "no column 'absent'"),
        (["--output", "out.csv", "--nlp-date", "2026-01-01"], "--nlp-date is only for --output-format omop"),
        (["--output", "out.csv", "--output-format", "omop", "--nlp-date", "today"], "found 'today'"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    elsewhere: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(annotate(elsewhere, *arguments), capsys, command="annotate", message=message)


def test_a_missing_input_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["annotate", "absent.csv", "--output", str(tmp_path / "o.csv"), "--model", str(folder / "model")]
    )
    assert_refused(code, capsys, command="annotate", message="absent.csv does not exist")
