"""What holds for every command: outputs are not replaced unasked, no flag is abbreviated, help has an example."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmcells.cli import terminal
from lmcells.cli.arguments import _WRITTEN
from lmcells.cli.main import BAD_INPUT, build_parser, main
from lmcells.files import work_folder
from lmcells.notes.note import Note


def leaf_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser of each command, those inside groups of commands included."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for group in groups:
        for inner in group.choices.values():
            yield from leaf_parsers(inner)
    if not groups:
        yield parser


PARSERS = {parser.prog.removeprefix("lmcells "): parser for parser in leaf_parsers(build_parser())}
OUTPUTS = [
    (name, flag)
    for name, parser in PARSERS.items()
    for action in parser._actions
    for flag in action.option_strings
    if flag.removeprefix("--").replace("-", "_") in _WRITTEN
    and name != "reproduce"  # which always continues in its folder
]


def required_arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Something for each argument without which the command does not run, its outputs aside."""
    for action in parser._actions:
        if action.required and "--output" not in action.option_strings:
            yield from action.option_strings[:1]
            yield str(next(iter(action.choices))) if action.choices else "absent"


def test_commands_that_write_are_found() -> None:
    assert len(OUTPUTS) >= 17
    assert {name.split()[0] for name, _ in OUTPUTS} == set(
        "annotate audit export inventory prepare train dataset evaluate inspect pack unpack".split()
    )


@pytest.mark.parametrize("command", ["audit", "prepare"])
@pytest.mark.parametrize("given", [["."], [".", "--overwrite"], ["..", "--overwrite"]])
def test_the_folder_one_is_in_is_no_output(
    command: str,
    given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "n.txt").write_text("HTN")
    here = tmp_path / "above" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert main([command, "../../n.txt", "--output", *given]) == BAD_INPUT
    expected = f"lmcells {command}: --output {given[0]} does not end in a name. Give the output one.\n"
    assert capsys.readouterr().err == expected
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["above", "here", "n.txt"]


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize(("name", "flag"), OUTPUTS)
def test_existing_output_is_refused_and_left_as_it_was(
    name: str, flag: str, is_folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.jsonl"
    kept = output / "kept" if is_folder else output
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("kept")
    given = [*name.split(), *required_arguments(PARSERS[name]), flag, str(output)]
    if flag != "--output":
        given += ["--output", str(tmp_path / "free")]
    assert main(given) == BAD_INPUT
    assert f"{output} already exists" in capsys.readouterr().err
    assert kept.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize("name", sorted({name for name, _ in OUTPUTS}))
def test_what_exists_may_be_replaced(name: str) -> None:
    assert "--overwrite" in PARSERS[name]._option_string_actions


@pytest.mark.parametrize("name", sorted({name for name, _ in OUTPUTS if "inspect" not in name}))
def test_an_input_is_never_replaced(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text("kept")
    (tmp_path / "link.jsonl").symlink_to(given)
    arguments = [str(given) if each == "absent" else each for each in required_arguments(PARSERS[name])]
    assert str(given) in arguments or name == "evaluate"
    if name == "evaluate":
        arguments += ["--dataset", str(given)]
    arguments += ["--output", str(tmp_path / "link.jsonl"), "--overwrite"]
    assert main([*name.split(), *arguments]) == BAD_INPUT
    assert "is also an input" in capsys.readouterr().err
    assert given.read_text() == "kept"


NOTE = '{"id": "1", "text": "PLAN: seen by PT for gait. Physical therapy (PT) again."}\n'


@pytest.mark.parametrize("flag", ["--errors", "--outcomes"])
def test_marked_notes_are_not_replaced_by_what_is_written_about_them(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, same = tmp_path / "marked.jsonl", tmp_path / "same.jsonl"
    notes.write_text("kept")
    same.hardlink_to(notes)
    assert main(["evaluate", "default", "--notes", str(notes), flag, str(same), "--overwrite"]) == BAD_INPUT
    assert f"{flag} {same} is also an input" in capsys.readouterr().err
    assert notes.read_text() == "kept"


@pytest.mark.parametrize(
    "given",
    [
        "dataset reverse notes.jsonl --inventory i.csv --output x.json --inventory-output sub/../x.json",
        "evaluate default --notes notes.jsonl --errors x.json --outcomes ./x.json",
    ],
)
def test_two_outputs_have_two_names(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert main(given.split()) == BAD_INPUT
    assert re.search(r"--[\w-]+ \S+ is also --\w+\. Choose another name\.", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["sub"]


@pytest.mark.parametrize(
    "given",
    [
        "prepare out/notes.jsonl --output out",
        "prepare out.building/notes.jsonl --output out",
        "audit notes.jsonl --inventory out/site_inventory.csv --output out",
        "audit out.parts/notes.jsonl --output out",
        "annotate out.jsonl.parts/notes.jsonl --output out.jsonl",
        "annotate out.jsonl.parts --output out.jsonl",
        "annotate out.jsonl.report.json --output out.jsonl",
        "annotate out.jsonl.rejected.jsonl --output out.jsonl",
        "export annotations.jsonl --notes out/notes.jsonl --to brat --output out",
        "train out/corpus --output out",
        "unpack out/corpus.packed --output out",
        "inventory compile out/site.csv --corpus corpus --model default --output out",
    ],
)
def test_an_input_in_a_folder_that_would_be_replaced_is_kept(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [Path(word) for word in given.split() if word.startswith("out") and "/" in word]
    names += [
        Path("out.jsonl.parts/notes.jsonl"),
        Path("out.jsonl.report.json"),
        Path("out.jsonl.rejected.jsonl"),
    ]
    for path in names:
        path.parent.mkdir(exist_ok=True)
        path.write_text(NOTE)
    assert main([*given.split(), "--overwrite"]) == BAD_INPUT
    assert re.search(r"(would replace \S+, an input|is also an input)\. Choose", capsys.readouterr().err)
    assert all(path.read_text() == NOTE for path in names)


@pytest.mark.parametrize("command", ["prepare", "annotate", "audit", "inventory find"])
def test_nothing_is_written_into_a_folder_of_notes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be read as a note next time."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.jsonl").write_text(NOTE)
    (tmp_path / "link").symlink_to("notes")
    for notes, output in (
        ("notes", "link/out.csv"),
        ("link", "notes/sub/../out.csv"),
        (".", "notes/out.csv"),
    ):
        assert main([*command.split(), notes, "--output", output]) == BAD_INPUT
        assert f"is inside {notes}, which is an input" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.jsonl"]


WORK_FOLDERS = [
    ("annotate notes.jsonl --output out.jsonl", "out.jsonl.parts"),
    ("audit notes.jsonl --output out", "out.parts"),
    ("prepare notes.jsonl --output out --min-count 0", "out.building"),
]


@pytest.mark.parametrize(("command", "beside"), WORK_FOLDERS)
def test_two_jobs_never_work_on_one_output(
    command: str,
    beside: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of them would take the other's parts for its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.jsonl").write_text(NOTE)
    work = tmp_path / beside
    with work_folder(work, "plan.json", keep=False):
        (work / "plan.json").write_text("{}")
        (work / "part-000000.jsonl").write_text("kept")
        for more in ([], ["--overwrite"], ["--resume"]):
            assert main([*command.split(), *more]) == BAD_INPUT
            message = f"{beside} is being worked on by another job. Wait for it, or end it."
            assert message in capsys.readouterr().err or more == ["--resume"]
            assert (work / "part-000000.jsonl").read_text() == "kept"
    assert main([*command.split(), *more[:-1]]) == 0
    assert not work.exists()


@pytest.mark.parametrize(("command", "beside"), WORK_FOLDERS)
def test_a_folder_that_another_program_made_is_left_alone(
    command: str,
    beside: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.jsonl").write_text(NOTE)
    (tmp_path / beside).mkdir()
    (tmp_path / beside / "thesis.txt").write_text("kept")
    for more in ([], ["--overwrite"], ["--resume"]):
        assert main([*command.split(), *more]) == BAD_INPUT
        assert f"{beside} is needed for work in progress" in capsys.readouterr().err
        assert (tmp_path / beside / "thesis.txt").read_text() == "kept"


@pytest.mark.parametrize("name", ["out.jsonl.report.json", "out.jsonl.rejected.jsonl"])
def test_a_file_beside_the_output_is_replaced_only_when_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.jsonl").write_text(NOTE)
    (tmp_path / name).write_text("kept")
    given = ["annotate", "notes.jsonl", "--output", "out.jsonl"]
    assert main(given) == BAD_INPUT
    assert f"{name} already exists" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "kept"
    assert main([*given, "--overwrite"]) == 0


def test_a_name_that_no_file_can_have_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["annotate", "absent", "--output", f"{'x' * 300}.jsonl"]) == BAD_INPUT
    assert capsys.readouterr().err.endswith("File name too long.\n")


def test_no_flag_may_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    assert {parser.allow_abbrev for parser in PARSERS.values()} == {False}
    with pytest.raises(SystemExit) as stopped:
        main(["info", "default", "--verif"])
    assert stopped.value.code == BAD_INPUT
    assert "unrecognized arguments: --verif" in capsys.readouterr().err


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*name.split(), "--help"])
    assert stopped.value.code == 0
    assert re.search(rf"\n  (.* )?lmcells {name}\b", capsys.readouterr().out)


def test_progress_is_a_line_now_and_then_where_it_cannot_be_rewritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = [Note("n/1", "PT")] * 250
    for interval, n_lines in ((60.0, 0), (0.0, 2)):
        monkeypatch.setattr(terminal, "_PLAIN_INTERVAL", interval)
        assert list(terminal.ProgressLine().counting(notes)) == notes
        lines = capsys.readouterr().err.splitlines()
        assert [line.split(" notes, ")[0] for line in lines] == ["100", "200"][:n_lines]
