"""`lmcells prepare` as a user meets it: summaries, hostile input, kills."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.notes.readers import opening
from note_files import write_bytes, write_csv, write_jsonl, write_mimic4, write_noteevents, write_parquet


def prepare(*arguments: object) -> int:
    return main(["prepare", "--workers", "1", *map(str, arguments)])


def test_noteevents_become_a_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_noteevents(tmp_path / "NOTEEVENTS.csv", gzip=False)
    notes = tmp_path / "NOTEEVENTS.csv"
    assert prepare(notes, "--output", tmp_path / "corpus", "--min-count", 0, "--sections", "paper") == 0
    printed = capsys.readouterr().out
    corpus = Corpus.open(tmp_path / "corpus", verify=True)
    assert "ISERROR" in printed
    assert all(name.startswith("mimic3/") for name in corpus.metadata_names("document"))
    assert {"<date>", "<digit>", "s/p", "ra"} <= set(corpus.words)
    assert main(["info", str(tmp_path / "corpus"), "--verify"]) == 0
    assert "most frequent words" in capsys.readouterr().out


def test_the_summary_accounts_for_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        '{"id": "a", "text": "pain"}',
        "not json",
        '{"id": "b"}',
        '{"text": ""}',
        '{"id": 2, "text": "x"}',
    ]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    assert prepare(tmp_path / "notes.jsonl", "--output", tmp_path / "corpus", "--min-count", 0, "--json") == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["n_read"] + sum(report["skipped"].values()) == len(lines)
    assert report["n_read"] == 2


def test_all_formats_give_the_same_corpus(tmp_path: Path) -> None:
    rows = [{"id": f"s/{i}", "text": f"HPI: pain in knee {i}\n\nPLAN: rest"} for i in range(5)]
    write_csv(tmp_path / "n.csv", rows)
    write_jsonl(tmp_path / "n.jsonl", rows)
    write_parquet(tmp_path / "n.parquet", {name: [row[name] for row in rows] for name in ("id", "text")})
    written = set()
    for name in ("n.csv", "n.jsonl", "n.parquet"):
        assert prepare(tmp_path / name, "--output", tmp_path / f"{name}.corpus", "--min-count", 0) == 0
        written.add((tmp_path / f"{name}.corpus" / "tokens.npy").read_bytes())
    assert len(written) == 1


def test_mimic4_and_named_columns_are_read(tmp_path: Path) -> None:
    write_mimic4(tmp_path / "discharge.csv")
    assert prepare(tmp_path / "discharge.csv", "--output", tmp_path / "four", "--min-count", 0) == 0
    row = {"key": "1", "body": "pain", "kind": "News", "ward": "B"}
    write_csv(tmp_path / "x.csv", [row], columns=[*row])
    named = "--text-column body --id-column key --category-column kind --metadata-column ward".split()
    assert prepare(tmp_path / "x.csv", "--output", tmp_path / "x", "--min-count", 0, *named) == 0
    corpus = Corpus.open(tmp_path / "x")
    assert corpus.metadata_names("category") == ["News"]
    assert corpus.metadata_names("ward") == ["B"]


HOSTILE = {
    "empty.csv": (b"", "empty"),
    "columns.csv": (b"id,body\n1,pain\n", "body"),
    "notes.parquet": (b"PAR1 this is not parquet", "notes.parquet"),
    "broken.csv.gz": (b"\x1f\x8b\x08\x00 truncated", "broken.csv.gz"),
    "nothing.jsonl": (b'{"id": "a", "text": ""}\n', "empty note"),
    "only_bad.jsonl": (b"{\n[\n", "only_bad.jsonl|no note"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_unusable_input_gets_one_line_and_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    content, expected = HOSTILE[name]
    write_bytes(tmp_path / name, content)
    assert prepare(tmp_path / name, "--output", tmp_path / "corpus", "--min-count", 0) == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("lmcells prepare: ")
    assert "\n" not in message
    assert any(part in message for part in expected.split("|")), message
    assert not (tmp_path / "corpus").exists()


def test_missing_input_and_existing_output_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(tmp_path / "nowhere.csv", "--output", tmp_path / "corpus") == 2
    assert "nowhere.csv" in capsys.readouterr().err
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "pain"}])
    prepare_there = [tmp_path / "n.jsonl", "--min-count", 0, "--output", tmp_path / "there"]
    assert prepare(*prepare_there) == 0
    assert prepare(*prepare_there) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert prepare(*prepare_there, "--overwrite") == 0
    (tmp_path / "there" / "manifest.json").unlink()
    assert prepare(*prepare_there, "--overwrite") == 2
    assert "is not a corpus, so it is not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--min-count", "-1", "at least 0"),
        ("--min-header-count", "0", "at least 1"),
        ("--metadata-column", "section", "section"),
        ("--spell-out", "1.5", "at most 1"),
        ("--spell-out", "nan", "at most 1"),
        ("--workers", "0", "1 or more"),
    ],
)
def test_settings_out_of_range_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, expected: str
) -> None:
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "pain"}])
    assert prepare(tmp_path / "n.jsonl", "--output", tmp_path / "corpus", option, value) == 2
    assert expected in capsys.readouterr().err


def test_stop_words_and_spelled_out_short_forms_are_asked_for_by_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "loss of fat mass (FM)\n\nPLAN: measure FM"}])
    common = [tmp_path / "n.jsonl", "--min-count", 0, "--json"]
    assert prepare(*common, "--output", tmp_path / "plain") == 0
    assert json.loads(capsys.readouterr().out)["settings"]["stop_words"] is False
    assert sorted(Corpus.open(tmp_path / "plain").words) == ["fat", "fm", "loss", "mass", "measure"]
    assert prepare(*common, "--output", tmp_path / "corpus", "--stop-words", "--spell-out", 1) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["stop_words"], settings["spelled_out"]) == (True, 1.0)
    corpus = Corpus.open(tmp_path / "corpus", verify=True)
    assert [corpus.words[token] for token in corpus.tokens] == "loss of fat mass fm measure fat mass".split()


@pytest.mark.parametrize("option", [["--stop-words"], ["--spell-out", "0.5"]])
def test_a_build_begun_without_an_option_does_not_go_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "loss of fat mass (FM)"}])
    command = [tmp_path / "n.jsonl", "--output", tmp_path / "corpus", "--min-count", 0]
    assert prepare(*command[:-1], 99) == 2  # no word is as frequent: the shards stay
    assert prepare(*command[:-1], 99, "--resume", *option) == 2
    assert "started with other settings" in capsys.readouterr().err


def test_awkward_but_readable_input_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = ["word " * 200_000, "A " * 50_000 + " " * 200_000]  # minutes, if time were not linear
    texts = ["pain \x00 after NUL", *long, "no sections here", "é pain"]
    with (tmp_path / "n.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["id", "text"], *([f"s/{i}", text] for i, text in enumerate(texts))])
    content = (tmp_path / "n.csv").read_bytes().replace("é".encode(), b"\xff\xfe")
    (tmp_path / "n.csv").write_bytes(content)
    assert prepare(tmp_path / "n.csv", "--output", tmp_path / "corpus", "--min-count", 0) == 0
    assert "invalid UTF-8" in capsys.readouterr().out
    assert Corpus.open(tmp_path / "corpus").manifest.sizes["n_documents"] == len(texts)


def test_messages_never_quote_the_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.jsonl").write_text(
        '{"id": "a", "text": "Jane Roe secret"\n{"id": "b", "note": "Jane Roe secret"}\n'
    )
    assert prepare(tmp_path / "n.jsonl", "--output", tmp_path / "corpus") == 2
    captured = capsys.readouterr()
    assert "Roe" not in captured.out + captured.err


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell has what runs in its background ignore SIGINT, and what that starts too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# `lmcells prepare` with parts of a kilobyte, which waits to be stopped after three of them.
WAITING = """
import sys, time
from lmcells.cli.main import main
from lmcells.corpus import build
from lmcells.notes.readers import cut_notes, opening

def lots(*given, **named):
    for number, lot in enumerate(cut_notes(*given, **named)):
        if number == 3:
            time.sleep(600)
        yield lot

opening.PART_BYTES = 1000
build.cut_notes = lots
sys.exit(main(["prepare", *sys.argv[1:]]))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("stop", "whom"),
    [(signal.SIGKILL, "all"), (signal.SIGINT, "all"), (signal.SIGKILL, "parent"), (signal.SIGTERM, "parent")],
)
def test_a_stopped_build_leaves_no_corpus_and_resumes_to_the_same_bytes(
    tmp_path: Path, stop: signal.Signals, whom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PART_BYTES", 1000)
    rows = [{"id": f"s/{i}", "text": f"HPI: word{i % 7} word{i % 31}\n\nPLAN: w{i}"} for i in range(120)]
    common = [str(write_jsonl(tmp_path / "n.jsonl", rows)), "--min-count", "0"]
    killed, work = tmp_path / "killed", tmp_path / "killed.building"
    command = [sys.executable, "-c", WAITING, *common, "--output", str(killed), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (before := {path: path.stat().st_mtime_ns for path in work.glob("shard-??????-????")}):
        assert process.poll() is None, "the build ended before it could be stopped"
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    (os.killpg if whom == "all" else os.kill)(process.pid, stop)
    process.wait()
    assert not psutil.wait_procs(workers, timeout=20)[1], "a worker goes on without its parent"
    assert not killed.exists()

    assert prepare(*common, "--output", tmp_path / "whole") == 0
    assert prepare(*common, "--output", killed, "--resume", "--min-count", "1") == 2
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert prepare(*common, "--output", killed, "--resume") == 0
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (killed / path.name).read_bytes(), path.name
    assert not work.exists()


def test_pack_and_unpack_take_a_corpus_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "HPI: pain"}])
    assert prepare(tmp_path / "n.jsonl", "--output", tmp_path / "corpus", "--min-count", 0) == 0
    assert main(["pack", str(tmp_path / "corpus"), "--output", str(tmp_path / "c.packed")]) == 0
    assert main(["unpack", str(tmp_path / "c.packed"), "--output", str(tmp_path / "again")]) == 0
    assert main(["pack", str(tmp_path / "again"), "--output", str(tmp_path / "c.packed"), "--overwrite"]) == 0
    again = str(tmp_path / "again")
    assert main(["unpack", str(tmp_path / "c.packed"), "--output", again, "--overwrite"]) == 0
    assert Corpus.open(tmp_path / "again", verify=True).words == ["pain"]
    capsys.readouterr()
    (tmp_path / "c.packed").write_bytes((tmp_path / "c.packed").read_bytes()[:-40])
    assert main(["unpack", str(tmp_path / "c.packed"), "--output", str(tmp_path / "more")]) == 2
    assert "c.packed" in capsys.readouterr().err


def test_preparing_needs_numpy_alone(tmp_path: Path) -> None:
    """On a bare GPU machine there is no pyarrow, and torch must not be loaded to prepare notes."""
    write_jsonl(tmp_path / "n.jsonl", [{"id": "a", "text": "pain"}])
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from lmcells.cli.main import main\n"
        "assert main(['prepare', *sys.argv[1:], '--min-count', '0']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    arguments = [tmp_path / "n.jsonl", "--output", tmp_path / "c"]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    "arguments", [["prepare", "x"], ["prepare", "x", "--output", "y", "--format", "z"], ["nothing"], []]
)
def test_wrong_arguments_get_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
