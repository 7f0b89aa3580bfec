"""What is missing for one's own notes: short forms, senses and headers, in files that only their owner may read."""

import csv
import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmcells import Expander
from lmcells.cli.main import main
from lmcells.errors import ConfigError, InputError
from lmcells.expansion.inventory_files import load_rules
from lmcells.integrations import audit as audit_module
from lmcells.integrations.audit import audit
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.section_rules import SectionRules
from note_files import write_jsonl

TEXTS = [
    "HPI: The zebra tremor quotient (ZTQ) was 4. ZTQ again today. Given QXZ by mouth.\n\nWOUND BED SCORE: clean.",
    "HPI: ZTQ unchanged, QXZ stopped. NOT better, and not worse, not at all.\n\nWOUND BED SCORE: pale.",
    "HPI: A zebra tremor quotient (ZTQ) of 5.\nStoma color: pink\n\nWOUND BED SCORE: red.\n\nPLAN: AC stopped.",
    "HPI: Known HTN, on QXZ.\nStoma color: pink\n\nPLAN: AC next week, [**Name QQQ**].",
]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "notes.jsonl", [{"id": n, "text": text} for n, text in enumerate(TEXTS)])


def rows_of(folder: Path, table: str) -> dict[str, dict[str, str]]:
    with (folder / f"{table}.csv").open(newline="") as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def test_an_audit_lists_what_is_missing_by_frequency(notes: Path, tmp_path: Path) -> None:
    report = audit(NoteFiles([notes]), tmp_path / "audit")
    unknown = rows_of(tmp_path / "audit", "unknown_short_forms")
    assert list(unknown) == ["ZTQ", "QXZ"]
    assert (unknown["ZTQ"]["n_notes"], unknown["ZTQ"]["n_occurrences"]) == ("3", "4")
    assert unknown["ZTQ"]["defined_as"] == "zebra tremor quotient"
    assert "by mouth" in unknown["QXZ"]["example"]
    sections = rows_of(tmp_path / "audit", "sections")
    assert (sections["WOUND BED SCORE"]["n_notes"], sections["WOUND BED SCORE"]["is_section"]) == ("3", "yes")
    assert sections["STOMA COLOR"]["is_section"] == "no"
    assert report["n_read"] == 4
    assert report["n_unknown_short_forms"] == 2
    page = (tmp_path / "audit" / "audit.html").read_text()
    assert "zebra tremor quotient" in page
    assert "Patient data" in page
    assert not (tmp_path / "audit.parts").exists()


def test_a_folder_of_something_else_is_not_replaced(notes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "report.json").write_text('{"mine": 1}')
    mode = folder.stat().st_mode
    with pytest.raises(InputError, match="home is not an audit, so it is not overwritten"):
        audit(NoteFiles([notes]), folder, overwrite=True)
    assert [path.read_text() for path in folder.iterdir()] == ['{"mine": 1}']
    assert folder.stat().st_mode == mode


def test_its_files_are_ready_to_use(notes: Path, tmp_path: Path) -> None:
    audit(NoteFiles([notes]), tmp_path / "audit")
    site = tmp_path / "audit" / "site_inventory.csv"
    ((_, rule),) = load_rules(site)
    assert (rule.sense.short_form, rule.sense.long_form, rule.action) == (
        "ZTQ",
        "zebra tremor quotient",
        "add",
    )
    (found,) = Expander.from_pretrained(inventory=site)("ZTQ was 4")
    assert found.long_form == "zebra tremor quotient"
    rules = SectionRules(tmp_path / "audit" / "header_rules.json")
    assert [section.name for section in rules("wound bed score\nclean")] == ["WOUND BED SCORE"]


def test_unsure_short_forms_come_with_their_likeliest_senses(notes: Path, tmp_path: Path) -> None:
    settings = audit_module.ExpanderSettings(threshold=1.0)
    audit(NoteFiles([notes]), tmp_path / "audit", expander=settings)
    unsure = rows_of(tmp_path / "audit", "unsure_short_forms")
    assert unsure["AC"]["n_notes"] == unsure["AC"]["n_unsure"] == "2"
    assert unsure["AC"]["likeliest"].rsplit(" ", 1)[1] in "12"


def test_only_the_owner_may_read_it_and_examples_may_be_left_out(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", str(notes), "--output", str(tmp_path / "audit"), "--no-context"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "patient data" in printed.err
    assert "short forms that the inventory lacks  2" in printed.out
    for path in (tmp_path / "audit").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "by mouth" not in path.read_text()
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o700
    assert main(command) == 2  # it exists
    assert main([*command, "--resume"]) == 0  # and is done


def test_an_audit_of_other_notes_does_not_replace_an_edited_inventory(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", str(notes), "--output", str(tmp_path / "audit")]
    assert main(command) == 0
    edited = tmp_path / "audit" / "site_inventory.csv"
    edited.write_text("short_form,long_form\nQXZ,mine\n")
    assert main([*command, "--resume"]) == 0  # it is done
    for change in (["--min-count", "1"], ["--no-context"]):
        assert main([*command, "--resume", *change]) == 2
        assert "was made from other notes or settings" in capsys.readouterr().err
    assert edited.read_text() == "short_form,long_form\nQXZ,mine\n"
    assert main([*command, "--min-count", "1", "--overwrite"]) == 0
    assert "mine" not in edited.read_text()


def test_neither_shards_nor_workers_change_the_tables(notes: Path, tmp_path: Path) -> None:
    audit(NoteFiles([notes]), tmp_path / "one")
    audit(NoteFiles([notes]), tmp_path / "many", shard_notes=1, workers=2)
    for name in ("unknown_short_forms.csv", "sections.csv", "site_inventory.csv", "header_rules.json"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "many" / name).read_text()


def test_a_killed_audit_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [{"id": n, "text": TEXTS[n % 4] + " Seen again." * 200} for n in range(2048)]
    notes = write_jsonl(tmp_path / "many.jsonl", many)
    arguments = [str(notes), "--output", str(tmp_path / "audit")]
    command = [sys.executable, "-m", "lmcells", "audit", *arguments]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    parts = tmp_path / "audit.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob("part-*.jsonl"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    running.kill()
    running.wait()
    first = min(parts.glob("part-*.jsonl"))
    first.write_bytes(first.read_bytes().replace(b'"QXZ"', b'"KEPT"'))  # shows that it is not made again
    assert main(["audit", *arguments, "--resume", "--no-context"]) == 2
    assert "has changed: --no-context. Use what was used then" in capsys.readouterr().err
    assert main(["audit", *arguments, "--resume"]) == 0
    assert json.loads((tmp_path / "audit" / "report.json").read_text())["n_read"] == 2048
    unknown = rows_of(tmp_path / "audit", "unknown_short_forms")
    assert unknown["KEPT"]["n_notes"] == "384"  # three of four notes of a shard
    assert unknown["QXZ"]["n_notes"] == str(1536 - 384)


def test_the_rarest_are_dropped_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "_MOST_KEPT", 100)
    findings = audit_module._Findings(audit_module.SenseInventory())
    for n in range(5_000):
        findings.add(["unknown", f"X{n}", 1, 1, {}, ""])
        findings.add(["unknown", "OFTEN", 1, 2, {}, ""])
    assert len(findings._items["unknown"]) <= 100
    assert findings.items("unknown", 2)[0][0] == "OFTEN"
    assert findings.items("unknown", 2)[0][1].n == 10_000
    for n in range(5_000):
        findings.add(["definition", 1, [["ABC", f"a b c{n}"]]])
        findings.add(["definition", 1, [["OFT", "once for tea"]]])
    assert sum(1 for _ in findings._definitions.counts()) <= 100
    assert [row["n_notes"] for row in findings.tables(2)["site_inventory"]] == [5_000]


def test_an_output_that_would_be_read_is_refused(notes: Path) -> None:
    with pytest.raises(ConfigError, match="which is an input"):
        audit(NoteFiles([notes.parent]), notes.parent / "audit")
    with pytest.raises(ConfigError, match="is not a folder"):
        audit(NoteFiles([notes]), notes, overwrite=True)


def test_notes_that_cannot_be_read_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text('{"id": 1, "text": ""}\n')
    with pytest.raises(InputError, match="no note could be read"):
        audit(NoteFiles([tmp_path / "empty.jsonl"]), tmp_path / "audit")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.jsonl"]
