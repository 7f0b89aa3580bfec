"""The pages about `lmcells inspect` promise only what works: their blocks run, and their links lead somewhere.

Their numbers are of the shipped model, which gets better; they are not compared.
"""

import contextlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lmcells.analysis import cells, point_figures
from lmcells.analysis.cells import expected_words
from lmcells.cli.inspect import VIEWS
from lmcells.cli.main import main
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

PAGES = Path(__file__).parents[2] / "docs" / "inspect"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module", autouse=True)
def opened_once() -> Iterator[None]:
    """All blocks look at the shipped model: open it, and expect its words over their sections, once."""
    moments = cache(lambda: expected_words(PretrainedModel.from_pretrained(model_folder(None))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PretrainedModel, "from_pretrained", cache(PretrainedModel.from_pretrained))
        patch.setattr(cells, "expected_words", lambda _: moments())
        patch.setattr(
            point_figures, "write_names", lambda *_, **__: 0
        )  # takes longest, and has its own tests
        yield


def text_of(page: str) -> str:
    return (PAGES / page).read_text(encoding="utf-8")


def run_blocks(page: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Run a page's blocks here; -> how many there were."""
    blocks = BLOCK.findall(text_of(page))
    for language, code in blocks:
        if language == "python":
            exec(compile(code, page, "exec"), {"__name__": "page"})
            continue
        for line in code.splitlines():
            command, *arguments = shlex.split(line, comments=True)
            assert (command, main(arguments)) == ("lmcells", 0), line
        assert capsys.readouterr().out
    return len(blocks)


def test_the_page_about_words_and_sections_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(tmp_path):
        assert run_blocks("words-and-sections.md", capsys) == 6


def test_the_page_about_the_gate_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_text(
        "PAST MEDICAL HISTORY: MS, HTN.\n\nANESTHESIA: LMA.\n", encoding="utf-8"
    )
    example = Example("e/1", "given MS 2 mg", 6, 8, "MS", "MEDICATIONS", "morphine sulfate", "n/1")
    write_dataset(tmp_path / "rs.jsonl", [example])
    with contextlib.chdir(tmp_path):
        assert run_blocks("gate-and-interpolation.md", capsys) == 4


def test_the_page_about_mixtures_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gensim", reason="gensim is not installed")
    with contextlib.chdir(tmp_path):
        assert run_blocks("mixtures-and-vectors.md", capsys) == 5


@pytest.mark.parametrize("page", sorted(page.name for page in PAGES.glob("*.md")))
def test_every_link_and_figure_is_there(page: str) -> None:
    for target, heading in LINK.findall(text_of(page)):
        assert (PAGES / target).is_file(), target
        headings = [
            re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in (text_of(target).splitlines() if heading else [])
            if line.startswith("#")
        ]
        assert not heading or heading in headings


def test_the_index_has_every_view() -> None:
    assert re.findall(r"^\| `(\w+)` \|", text_of("README.md"), re.MULTILINE) == list(VIEWS)
