"""The page about mixtures, vectors and uncertainty promises only what works: its blocks are run, in order.

Its numbers are of the shipped model, which gets better; they are not compared.
"""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from lmcells.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "inspect" / "mixtures-and-vectors.md"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_block_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gensim", reason="gensim is not installed")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [language for language, _ in blocks] == ["bash", "bash", "python", "bash", "python"]
    with contextlib.chdir(tmp_path):
        for language, code in blocks:
            if language == "python":
                exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
                continue
            for line in code.splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert (command, main(arguments)) == ("lmcells", 0)
            assert capsys.readouterr().out


def test_every_figure_is_there() -> None:
    figures = re.findall(r"\]\((\S+\.svg)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(figures) == ["mixtures.svg", "uncertainty.svg"]
    assert all((PAGE.parent / figure).is_file() for figure in figures)
