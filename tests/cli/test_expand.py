"""`lmcells expand`: what it reads, what it prints where, and how it refuses."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells.cli.expand import read_text, render
from lmcells.cli.main import main
from lmcells.errors import InputError
from lmcells.expansion import Candidate, Expansion, save_inventory

NOTE = "PLAN: Pt in PT for gait.\r\n\r\nPMH: multiple sclerosis (MS)."
FIELDS = "start end short_form section long_form probability source candidates abstained error_prone".split()
ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("expand")
    random_model(folder / "model", clinic_corpus(folder / "corpus"), "lmc")
    save_inventory(INVENTORY, folder / "inventory.csv")
    (folder / "note.txt").write_bytes(NOTE.encode())
    return folder


def expand(folder: Path, *arguments: str) -> int:
    return main(
        [
            "expand",
            "--model",
            str(folder / "model"),
            "--only-inventory",
            str(folder / "inventory.csv"),
            *arguments,
        ]
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    assert expand(folder, *arguments) == 0
    return terminal.getvalue()


def test_a_pipe_gets_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert expand(folder, NOTE) == 0
    expansions = json.loads(capsys.readouterr().out)
    assert [list(each) for each in expansions] == [FIELDS] * 3
    assert [NOTE[each["start"] : each["end"]] for each in expansions] == ["Pt", "PT", "MS"]
    assert expansions[2]["source"] == "definition"
    assert list(expansions[0]["candidates"][0]) == ["long_form", "probability", "concept_id"]


def test_a_file_and_standard_input_are_read_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert expand(folder, str(folder / "note.txt"), "--json") == 0
    from_file = capsys.readouterr().out
    for arguments in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NOTE.encode())))
        assert expand(folder, *arguments) == 0
        assert capsys.readouterr().out == from_file
    assert json.loads(from_file)[2]["start"] == NOTE.index("MS")


def test_a_terminal_shows_the_note_and_its_expansions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = shown(folder, monkeypatch, NOTE)
    assert "\x1b[" in printed
    plain = ANSI.sub("", printed)
    for text in ("PLAN: Pt in PT for gait.", "PAST MEDICAL HISTORY", "multiple sclerosis", "def.", "%"):
        assert text in plain
    assert "\r" not in plain


def test_no_color_means_no_escape_codes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    printed = shown(folder, monkeypatch, NOTE)
    assert "\x1b" not in printed
    assert "[Pt] in [PT] for gait." in printed


def test_a_terminal_gets_json_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(json.loads(shown(folder, monkeypatch, NOTE, "--json"))) == 3


def test_the_expanded_note_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert expand(folder, "now multiple sclerosis (MS) and MS", "--expanded") == 0
    assert capsys.readouterr().out == "now multiple sclerosis (MS) and multiple sclerosis\n"


def test_sections_are_found_as_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert expand(folder, NOTE, "--sections", "none") == 0
    assert {each["section"] for each in json.loads(capsys.readouterr().out)} == {None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "missing.txt does not exist"),
        (["--model", "absent", "PT"], "absent does not exist"),
        (["--inventory", "absent.csv", "PT"], "absent.csv cannot be read"),
        (["--sections", "best", "PT"], "invalid choice"),
        (["--json", "--expanded", "PT"], "not allowed with"),
        ([], "no note was given"),
        (["PT \udcff"], "TEXT is not UTF-8"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    try:
        code: object = expand(folder, *arguments)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_byte_order_mark_is_no_part_of_the_note(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "note.txt"
    path.write_bytes(f"\ufeff{NOTE}".encode(encoding))
    assert read_text(str(path), encoding=encoding) == NOTE


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="there is no /dev/fd")
def test_a_note_may_come_from_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"Pt in PT.")
    os.close(writer)
    assert read_text(f"/dev/fd/{reader}") == "Pt in PT."
    os.close(reader)


def test_what_is_no_utf8_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    path = tmp_path / "note.bin"
    path.write_bytes(b"secret \xff")
    with pytest.raises(InputError, match=r"note\.bin is not UTF-8 text \(byte 7\)") as refused:
        read_text(str(path))
    assert "secret" not in str(refused.value)
    with pytest.raises(InputError, match="is a folder"):
        read_text(str(tmp_path))


@pytest.mark.parametrize("text", ["PT\0", "PT " * 5000, "x" * 5000, "a/b.c"])
def test_what_is_no_file_is_text(text: str) -> None:
    assert read_text(text) == text


def expansion(start: int, end: int, probability: float | None) -> Expansion:
    candidates = (Candidate("a long form that goes on and on", 0.7), Candidate("another long form", 0.3))
    reason = None if probability else "low_confidence"
    name = candidates[0].long_form if probability else None
    return Expansion(start, end, "PT", "PLAN", name, probability, "model", candidates, reason)


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("color", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, color: bool) -> None:
    text = "the PT was there and " * 20
    places = [match.start() for match in re.finditer("PT", text)]
    view = render(text, [expansion(at, at + 2, 0.7) for at in places], width=width, color=color)
    note = ANSI.sub("", view).split("\n\n")[0]
    assert max(map(len, note.splitlines())) <= width
    assert note.replace("[", "").replace("]", "").split() == text.split()


def test_what_was_abstained_from_is_shown_with_the_reason() -> None:
    rendered = render("PT", [expansion(0, 2, None)], color=False)
    assert "? a long form that goes on and on (low confidence)" in rendered
    assert "No short form" in render("nothing", [], color=False)


def test_a_note_cannot_send_commands_to_the_terminal() -> None:
    view = render("\x1b]0;owned\x07 PT \x9b2J\tx", [expansion(11, 13, 0.9)], color=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", view)


def test_own_senses_and_headers_may_be_given(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site.csv").write_text("short_form,long_form,action,section\nPT,gait,pin,PLAN\n")
    (tmp_path / "mine.tsv").write_text("short_form\tlong_form\nCVA\tstroke\n")
    (tmp_path / "headers.json").write_text('{"PLAN": ["next steps"]}')
    layers = ["--inventory", str(tmp_path / "site.csv"), "--inventory", str(tmp_path / "mine.tsv")]
    note = "next steps\nPT after CVA"
    assert expand(folder, note, *layers, "--header-rules", str(tmp_path / "headers.json")) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["long_form"], first["source"], first["section"]) == ("gait", "pinned", "PLAN")
    assert second["short_form"] == "CVA"
    assert expand(folder, note, *layers) == 0
    assert json.loads(capsys.readouterr().out)[0]["source"] == "model"
    (tmp_path / "site.csv").write_text("short_form,long_form,action,ward\nPT,gait,pin,B2\n")
    assert expand(folder, note, *layers, "--metadata", "ward=b2") == 0
    assert json.loads(capsys.readouterr().out)[0]["source"] == "pinned"
    assert expand(folder, note, *layers, "--metadata", "ward") == 2
