"""The README and the guides promise only what works: their blocks are run in order, and what they print is compared."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lmcells.cli.main import main

REPOSITORY = Path(__file__).parent.parent
GUIDES = "annotate exports getting-started inventories labels linking omop own-senses spacy training".split()
PAGES = ["README.md", *(f"docs/{guide}.md" for guide in GUIDES)]
EXCERPTS = ("docs/annotate.md", "docs/labels.md")  # pages that show some lines of what is printed
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"lmcells [^|<>$&;\\]*")  # a command that needs no shell
NEXT = "\0\n"  # printed between blocks


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def run(*command: str) -> None:
    assert subprocess.run(command, check=False).returncode == 0, command[-1]


def run_in_shell(code: str) -> None:
    """Run a block line by line, plain commands of ours in this process, which need not import everything again."""
    for is_plain, lines in itertools.groupby(code.splitlines(), key=lambda line: bool(PLAIN.fullmatch(line))):
        if is_plain:
            for line in lines:
                assert main(shlex.split(line)[1:]) == 0, line
            continue
        script = "\n".join(lines)
        closes_pipes = "head" in script  # perhaps before all is written
        run("bash", "-eu", *(() if closes_pipes else ("-o", "pipefail")), "-c", script)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_do_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    blocks = BLOCK.findall(text_of(page))
    assert len(blocks) >= 2
    for language, group in itertools.groupby(blocks, key=lambda block: block[0]):
        _, codes, expected = zip(*group, strict=True)
        if language == "python":  # one process for blocks that follow each other
            run(sys.executable, "-c", f"\nprint({NEXT!r}, end='')\n".join(codes))
        else:
            for number, code in enumerate(codes):
                print(NEXT if number else "", end="")
                run_in_shell(code)
        printed = capfd.readouterr().out.split(NEXT)
        for code, found, wanted in zip(codes, printed, expected, strict=True):
            shown, lines = wanted.strip().splitlines(), found.strip().splitlines()
            assert not wanted or shown == lines or (page in EXCERPTS and set(shown) < set(lines)), code


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text_of(page)):
        assert (REPOSITORY / page).parent.joinpath(target).exists(), target
