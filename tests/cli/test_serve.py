"""`lmcells serve`: its options, and how it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from lmcells.cli.arguments import expander_settings
from lmcells.cli.main import build_parser, main
from lmcells.service import ServiceSettings


def test_defaults_are_those_of_the_library() -> None:
    options = build_parser().parse_args(["serve"])
    assert (options.host, options.port, options.workers) == ("127.0.0.1", 8000, 1)
    settings = ServiceSettings()
    limits = "max_body max_note_length max_notes max_concurrency max_connections deadline"
    for name in limits.split():
        assert getattr(options, name) == getattr(settings, name)


def test_it_expands_with_the_options_of_expand() -> None:
    given = ["--threshold", "0.9", "--codes", "--no-letters", "--header-rules", "h.json"]
    for command in ("serve", "review", "expand", "annotate"):
        more = {"annotate": ["n.csv", "--output", "out.csv"]}.get(command, [])
        settings = expander_settings(build_parser().parse_args([command, *more, *given]))
        found = settings.threshold, settings.codes, settings.letters, settings.header_rules
        assert found == (0.9, True, False, "h.json")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], "--workers: found 0, allowed: 1 or more."),
        (["--port", "70000"], "--port: found 70000, allowed: 0 to 65535."),
        (["--max-body", "0"], "--max-body: found 0.0, allowed: a number above 0."),
        (["--max-note-length", "-1"], "--max-note-length: found -1, allowed: a whole number of 1 or more."),
        (["--max-concurrency", "0"], "--max-concurrency: found 0, allowed: a whole number of 1 or more."),
        (["--deadline", "0"], "--deadline: found 0.0, allowed: a number above 0."),
        (["--root-path", "acronyms"], "--root-path: found 'acronyms', allowed: a path such as /acronyms."),
        (["--tls-key", "x"], "--tls-key needs --tls-certificate. Give both."),
        (["--tls-certificate", "x"], "--tls-certificate: cannot use x: No such file"),
        (["--token-file", "x"], "--token-file: cannot read x: No such file or directory."),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_wrong_options_get_one_line_and_exit_code_2(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lmcells serve: ")
    assert said in error
    assert error.count("\n") == 1


def test_a_token_that_cannot_be_sent_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for token, why in (("naïve", "non-ASCII"), ("", "is empty")):
        monkeypatch.setenv("LMCELLS_TOKEN", token)
        assert main(["serve"]) == 2
        error = capsys.readouterr().err
        assert why in error
        assert "LMCELLS_TOKEN" in error
        assert "naïve" not in error


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from lmcells.cli.main import main; sys.exit(main(['serve']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "lmcells serve: The service needs uvicorn, which is not installed. Run: pip install 'lmcells[serve]'\n"
    )


def test_other_commands_import_nothing_of_it() -> None:
    code = (
        "import sys; from lmcells.cli.main import build_parser; build_parser()\n"
        "print([name for name in ('fastapi', 'pydantic', 'uvicorn', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
