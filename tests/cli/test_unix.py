"""Commands behave as a unix user expects: pipes, full disks, other encodings, dumb terminals, Ctrl-C."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lmcells
from lmcells.cli.main import main
from note_files import write_jsonl

NOTES = [{"id": str(number), "text": f"Pt s/p CABG, now in PT. HTN. Visit {number}."} for number in range(40)]
COMMAND = [sys.executable, "-m", "lmcells"]


def run(*arguments: Any, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        check=False,
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **settings},
    )


def environment(**variables: str) -> dict[str, str]:
    return os.environ | variables


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "stdin.jsonl", NOTES)


def test_a_pipe_gives_the_rows_of_a_file(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["annotate", str(notes), "--output", str(out), "--shard-notes", "7"]) == 0
    piped = run(
        "annotate", "-", "--output", "-", *"--shard-notes 7 --workers 2".split(), input=notes.read_bytes()
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == out.read_bytes()
    assert b"notes read" in piped.stderr


def test_rows_for_omop_are_numbered_in_a_pipe_too(tmp_path: Path) -> None:
    table = "note_id,note_text\n71,Pt in PT.\n72,HTN\n"
    given = ("--output-format", "omop", "--nlp-date", "2026-01-31")
    piped = run("annotate", "-", "--output", "-", *given, input=table.encode())
    (tmp_path / "note.csv").write_text(table)
    assert (
        main(["annotate", str(tmp_path / "note.csv"), "--output", str(tmp_path / "out.jsonl"), *given]) == 0
    )
    rows = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [row["note_nlp_id"] for row in rows] == list(range(1, len(rows) + 1))
    assert piped.stdout == (tmp_path / "out.jsonl").read_bytes()


@pytest.mark.parametrize("format_", ["csv", "jsonl", "txt"])
def test_the_format_of_standard_input_is_told_by_its_first_bytes(format_: str) -> None:
    given = {"csv": "id,text\n1,HTN\n", "jsonl": '{"id": 1, "text": "HTN"}\n', "txt": "HTN and more"}[format_]
    done = run("annotate", "-", "--output", "-", input=given.encode())
    (row,) = map(json.loads, done.stdout.splitlines())
    assert row["note_id"] == ("stdin" if format_ == "txt" else "stdin/1")


def test_a_table_without_rows_gives_a_file_without_rows(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("id,text\n")
    assert main(["annotate", str(tmp_path / "notes.csv"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text().startswith("note_id,start,end,")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("./typo", 2), ("../no/such", 2), ("note.txt", 2), ("s/p", 0)]
)
def test_a_path_that_does_not_exist_is_not_taken_for_a_note(
    text: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["expand", text]) == code
    captured = capsys.readouterr()
    if code:
        assert captured.err == f"lmcells expand: {Path(text)} does not exist. Check the path.\n"
    else:
        assert [each["short_form"] for each in json.loads(captured.out)] == ([text] if text else [])


def test_a_note_without_quotes_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for given, message in (
        ("Severe MS again", "2 more than expected. Put a text with spaces in quotes"),
        ("MS --thresh=.5 secret", "--thresh"),
        ("MS -secret", "1 more than expected. Put a text with spaces in quotes"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["expand", *given.split()])
        expected = f"lmcells expand: unrecognized arguments: {message}. Run: lmcells expand --help\n"
        assert capsys.readouterr().err == expected


def test_a_threshold_leaves_open_what_is_less_sure(capsys: pytest.CaptureFixture[str]) -> None:
    note = "Pt s/p CABG, now in PT. Dx: MS."
    assert main(["expand", note, "--threshold", "0"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert main(["expand", note, "--threshold", "1"]) == 0
    strict = json.loads(capsys.readouterr().out)
    n_strict, n = (sum(each["abstained"] is not None for each in found) for found in (strict, answers))
    assert n_strict > n


def test_ctrl_c_while_a_command_is_imported_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmcells.cli.main.import_module", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(SystemExit, match="130"):
        main(["annotate", "notes.jsonl", "--output", "out.csv"])


def test_little_is_imported_before_ctrl_c_is_caught() -> None:
    code = (
        "import sys; import lmcells.cli.main\n"
        "try: lmcells.cli.main.main(['--version'])\n"
        "except SystemExit: print([name for name in sys.modules if name.startswith(('lmcells', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, imported = done.stdout.splitlines()
    assert version == f"lmcells {lmcells.__version__}"
    assert imported == "['lmcells', 'lmcells.cli', 'lmcells.errors', 'lmcells.cli.main']"


def test_a_closed_stream_is_said_or_empty() -> None:
    closed = run("expand", "HTN", preexec_fn=lambda: os.close(1), stdout=None)
    assert (closed.returncode, closed.stderr.count(b"\n")) == (1, 1)
    assert b"standard output is closed" in closed.stderr
    empty = run("expand", "-", preexec_fn=lambda: os.close(0), stdin=None)
    assert (empty.returncode, empty.stdout) == (0, b"[]\n"), empty.stderr


def test_without_standard_error_only_results_are_printed(notes: Path, tmp_path: Path) -> None:
    def close() -> None:
        os.close(2)

    wrong = run("expand", "./typo", preexec_fn=close)
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    annotated = run("annotate", notes, "--output", tmp_path / "a.csv", "--json", preexec_fn=close)
    assert annotated.returncode == 0
    assert json.loads(annotated.stdout)["n_read"] == len(NOTES)


def test_what_is_ended_leaves_no_notes_behind(tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", [{"id": n, "text": "HTN. " * 200} for n in range(3_000)])
    rows = write_jsonl(tmp_path / "rows.jsonl", [])
    for number in (signal.SIGTERM, signal.SIGHUP):
        command = ["export", rows, "--notes", notes, "--to", "brat", "--output", tmp_path / "brat"]
        process = subprocess.Popen([*COMMAND, *map(str, command)])
        while not list(tmp_path.glob(".brat.*/notes_9.txt")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.jsonl", "rows.jsonl"]


def test_names_and_ids_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "empty\x1b[2J\n.txt").touch()
    write_jsonl(folder / "n.jsonl", [{"id": "\x1b]0;owned\x07", "text": "HTN"}] * 2)
    assert main(["annotate", str(folder), "--output", str(tmp_path / "out.csv")]) == 0
    shown = capsys.readouterr().out
    assert "first at empty?[2J?.txt" in shown
    assert "first at n/?]0;owned?" in shown
    assert main(["annotate", str(folder / "empty\x1b[2J\n.txt"), "--output", str(tmp_path / "o.csv")]) == 2
    error = capsys.readouterr().err
    assert "empty?[2J?.txt is empty" in error
    assert error.count("\n") == 1


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "sections", "--sections", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert data["map"]["trustworthiness"] is None


def test_a_file_of_an_encoding_that_fails_is_not_taken_for_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "HTN.txt").write_text("HTN")
    assert main(["expand", str(tmp_path / "HTN.txt"), "--encoding", "undefined"]) == 2
    assert "is not UNDEFINED text. Give its encoding with --encoding." in capsys.readouterr().err


def test_a_path_in_the_home_folder_is_found_after_an_equals_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("Severe MS.")
    (tmp_path / "site.csv").write_text("short_form,long_form,action\nMS,mitral stenosis,pin\n")
    assert main(["expand", "~/note.txt", "--inventory=~/site.csv", "--expanded"]) == 0
    assert capsys.readouterr().out == "Severe mitral stenosis.\n"
    assert main(["annotate", "note.txt", "--output=~/out.csv"]) == 0
    assert (tmp_path / "out.csv").is_file()
    assert not (tmp_path / "~").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "command", [["expand", "HTN"], ["info", "default"], ["annotate", "-", "--output", "-"]]
)
def test_a_full_disk_is_said_in_one_line(command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(*command, stdout=full, input=b"HTN")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].endswith("cannot be written: No space left on device.")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("given", [["annotate"], ["prepare", "--min-count", "0", "--workers", "2"]])
def test_a_disk_that_fills_is_said_in_one_line_and_the_work_goes_on(given: list[str], tmp_path: Path) -> None:
    notes, output = write_jsonl(tmp_path / "n.jsonl", NOTES * 60), tmp_path / "out.csv"
    command = [*given, notes, "--output", output]
    for most in (4_096, 65_536):  # bytes of a file
        full = run(
            *command, preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        )
        (error,) = (line for line in full.stderr.decode().splitlines() if "notes/s" not in line)
        assert error.startswith(f"lmcells {given[0]}: {output} cannot be written: ")
        assert error.endswith("Mend that, then continue with --resume.")
        assert not output.exists()
    assert run(*command, "--resume").returncode == 0


def test_a_reader_that_goes_away_ends_a_command_quietly() -> None:
    process = subprocess.Popen(
        [*COMMAND, "completion", "fish"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) in (0, 141)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_terminal_of_another_encoding_shows_what_it_can() -> None:
    note = "5 µg – “HTN” → ≥ 3"
    variables = environment(PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    shown = run("expand", "-", "--pretty", input=note.encode(), env=variables)
    assert shown.returncode == 0, shown.stderr
    assert "5 µg – “[HTN]” ? ? 3" in shown.stdout.decode("cp1252")
    plain = run("expand", "-", input=note.encode(), env=variables)
    assert json.loads(plain.stdout)[0]["short_form"] == "HTN"


def test_a_dumb_terminal_gets_no_escapes() -> None:
    leader, follower = pty.openpty()
    done = subprocess.run(
        [*COMMAND, "expand", "Pt with HTN."], stdout=follower, stderr=follower, check=False,
        env=environment(TERM="dumb"),
    )  # fmt: skip
    os.close(follower)
    shown = os.read(leader, 1 << 16)
    os.close(leader)
    assert done.returncode == 0
    assert b"[HTN]" in shown
    assert b"\x1b" not in shown


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_says_how_to_go_on_and_resuming_does(tmp_path: Path, workers: int) -> None:
    rows = [{"id": str(number), "text": " ".join(each["text"] for each in NOTES)} for number in range(60)]
    notes = write_jsonl(tmp_path / "many.jsonl", rows)
    out = tmp_path / "out.jsonl"
    command = ["annotate", notes, "--output", out, "--shard-notes", "2", "--workers", workers]
    process = subprocess.Popen(
        [*COMMAND, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - ignored in the background
    )
    while len(list(tmp_path.glob("out.jsonl.parts/part-*"))) < 6:  # of 30; by then both workers are there
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes get it
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    last = "lmcells annotate: interrupted. Continue with the same command and --resume."
    assert errors.decode().splitlines() == [last]
    assert main([*map(str, command), "--resume"]) == 0
    assert len(out.read_bytes().splitlines()) > 60


@pytest.mark.parametrize("streams", [("-", "out.jsonl"), ("notes.jsonl", "-")])
def test_what_is_gone_cannot_be_resumed(
    streams: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lmcells.cli.annotate.annotate", interrupt)
    assert main(["annotate", streams[0], "--output", streams[1]]) == 130
    assert capsys.readouterr().err == "lmcells annotate: interrupted.\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_flags_and_choices(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("annotate", "casi", "overwrite", "local ray spark"):
        assert word in script


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "lmcells.bash").write_text(capsys.readouterr().out)
    asked = {
        "lmcells anno": ["annotate"],
        "lmcells annotate --engine s": ["spark"],
        "lmcells dataset ca": ["casi"],
    }
    for line, expected in asked.items():
        code = f"""source lmcells.bash; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _lmcells
        printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == expected
