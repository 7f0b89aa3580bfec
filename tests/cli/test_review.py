"""`lmcells review`: notes go into the file of reviews, the page is served, and reviews come out again."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lmcells.cli import serve
from lmcells.cli.main import main
from lmcells.evaluation.marked_notes import read_marked_notes
from lmcells.expansion.expansion import Expansion
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.service.review_decisions import Choice, Version
from lmcells.service.reviews import ReviewStore
from service.serving import wait_until

NOTES = [
    {"id": "1", "text": "PLAN: seen by PT for gait. XQZ given.", "category": "Nursing"},
    {"id": "2", "text": "Nothing to see here.", "category": "Nursing"},
]


def test_a_file_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["review"]) == 2
    assert "give --reviews FILE, the file for decisions" in capsys.readouterr().err
    missing = tmp_path / "missing.db"
    assert main(["review", "--reviews", str(missing), "--export", "labelled.jsonl"]) == 2
    assert f"{missing} does not exist" in capsys.readouterr().err
    assert not missing.exists()


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="files of limited size")
def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text(json.dumps({"id": "1", "text": "PLAN: seen by PT for gait. " * 5_000}))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); "
        "from lmcells.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    given = ["review", str(notes), "--reviews", str(tmp_path / "r.db"), "--no-browser"]
    done = subprocess.run([sys.executable, "-c", code, *given], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(r"lmcells review: --reviews \S+ cannot be used: [\w /]+\.\n", done.stderr)


def test_rules_that_could_never_hold_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.csv").write_text("short_form,long_form,action,ward\nMS,mitral stenosis,pin,B2\n")
    given = ["--reviews", str(tmp_path / "r.db"), "--inventory", str(tmp_path / "site.csv")]
    assert main(["review", str(tmp_path / "absent.csv"), *given]) == 2
    assert "depend on ward, which is not read. Add: --metadata-column ward" in capsys.readouterr().err


def test_notes_are_served_and_reviews_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes, reviews = tmp_path / "notes.jsonl", tmp_path / "reviews.db"
    notes.write_text("".join(json.dumps(each) + "\n" for each in NOTES))
    command = [sys.executable, *"-m lmcells review --no-browser --port 0 --reviewer Ana".split()]
    environment = {name: value for name, value in os.environ.items() if name != "LMCELLS_TOKEN"}
    with subprocess.Popen(
        [*command, str(notes), "--reviews", str(reviews)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            found = re.search(r"2 notes. Review them at (http://127.0.0.1:\d+/)#token=(\S+)", said)
            assert found, said
            while "listening on" not in process.stderr.readline():
                assert process.poll() is None
            asked = urllib.request.Request(
                f"{found[1]}v1/reviews", headers={"Authorization": f"Bearer {found[2]}"}
            )
            with urllib.request.urlopen(asked, timeout=30) as answer:
                listed = json.load(answer)
            assert (listed["reviewer"], [each["name"] for each in listed["notes"]]) == (
                "Ana",
                ["notes/1", "notes/2"],
            )
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{found[1]}v1/reviews", timeout=30)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    assert stat.S_IMODE(reviews.stat().st_mode) == 0o600
    store = ReviewStore(reviews)
    first = store.list_notes()[0]
    span = {"start": first.mentions[0].expansion.start, "end": first.mentions[0].expansion.end}
    version = Version("model", "inventory")
    choice = Choice(**span, long_form="physical therapist", scope="section")
    store.decide(first.id, choice, reviewer="Ana", version=version)
    store.decide(
        first.id, Choice(start=0, end=0, long_form=None, action="done"), reviewer="Ana", version=version
    )
    assert main(["review", "--reviews", str(reviews), "--export", "site_inventory.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["PT,physical therapist,pin,PLAN,"]
    assert main(["review", "--reviews", str(reviews), "--export", "labelled.jsonl"]) == 0
    (tmp_path / "labelled.jsonl").write_text(capsys.readouterr().out)
    (marked,) = read_marked_notes(tmp_path / "labelled.jsonl", report=ReadReport())
    assert marked.marks[0].senses == ("physical therapist",)


def test_the_token_is_not_on_the_command_line_of_the_browser(tmp_path: Path) -> None:
    """Everybody on the machine can read it there."""
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(
        f'#!/bin/sh\ncp "${{1#file://}}" {opened}.html\nls -ld "$(dirname "${{1#file://}}")" >{opened}.mode\n'
    )
    with browser.open("a") as more:
        more.write(f'echo "$@" >{opened}.new\nmv {opened}.new {opened}\n')
    browser.chmod(0o755)
    given = [*"review --port 0 --reviews".split(), str(tmp_path / "reviews.db")]
    process = subprocess.Popen(
        [sys.executable, "-m", "lmcells", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"BROWSER": f"{browser} %s", "LMCELLS_TOKEN": "se%cret&more"},
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            urllib.request.urlopen(address.replace("#", "livez#"), timeout=30).close()
            wait_until(opened.exists)
        finally:
            process.send_signal(signal.SIGTERM)
    assert address.endswith("/#token=se%25cret%26more")
    assert f"url={address}" in Path(f"{opened}.html").read_text()
    assert "cret" not in opened.read_text()
    assert Path(f"{opened}.mode").read_text().startswith("drwx------")
    assert {each.name for each in tmp_path.iterdir()} == {
        *("browser", "opened", "opened.html", "opened.mode", "reviews.db"),
    }


def test_what_is_exported_is_utf8_whatever_the_terminal(tmp_path: Path) -> None:
    store = ReviewStore(tmp_path / "reviews.db")
    mention = Expansion(0, 2, "MS", None, None, None, "model", ())
    number = store.add(Note("1", "MS – 5 µg", {}), [mention], version=Version("model", "inventory"))
    choice = Choice(start=0, end=2, long_form="Ménière's syndrome", scope="everywhere")
    store.decide(number, choice, reviewer="Ana", version=Version("model", "inventory"))
    command = [sys.executable, *"-m lmcells review --export site_inventory.csv --reviews".split(), store.path]
    variables = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    exported = subprocess.run(command, check=True, capture_output=True, env=variables).stdout
    assert exported.decode().splitlines()[1:] == ["MS,Ménière's syndrome,pin,,"]


def test_a_file_without_notes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.jsonl").write_text('{"id": "1", "text": ""}\n')
    given = [str(tmp_path / "notes.jsonl"), "--reviews", str(tmp_path / "r.db")]
    assert main(["review", *given]) == 2
    assert "there is no note to review" in capsys.readouterr().err


def test_the_file_with_the_token_is_removed_once_the_browser_has_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(serve, "_FETCH_SECONDS", 0.0)
    monkeypatch.setattr(
        serve.webbrowser, "open", lambda url: read.append(Path(url.removeprefix("file://")).read_text())
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serve._open_page("127.0.0.1", listening.getsockname()[1], "http://here/#token=secret", tmp_path)
    assert "url=http://here/#token=secret" in read[0]
    assert not list(tmp_path.iterdir())
