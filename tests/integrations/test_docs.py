"""The pages about whole files, exports and spaCy promise only what works: their blocks are run, in order."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lmcells.errors import ModelError
from lmcells.expansion.settings import ExpanderSettings
from lmcells.pretrained.folder import shipped_model

REPOSITORY = Path(__file__).parents[2]
PAGES = ("annotate", "exports", "spacy", "labels", "linking", "omop")
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.fixture
def environment(settings: ExpanderSettings, tmp_path: Path) -> dict[str, str]:
    """What a user has: a model that is already there. Where none is shipped yet, a small one takes its place."""
    variables = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    try:
        shipped_model()
    except ModelError:
        place = tmp_path / "stand_in"
        shutil.copytree(str(settings.model), place / "default")
        code = f"import lmcells.pretrained\nlmcells.pretrained.__file__ = {str(place / '__init__.py')!r}\n"
        (place / "sitecustomize.py").write_text(code)
        variables["PYTHONPATH"] = str(place)
    return variables


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    if page in ("spacy", "linking") and find_spec("spacy") is None:
        pytest.skip("spaCy is not installed: pip install 'lmcells[spacy]'")
    folder = tmp_path / "beside"
    folder.mkdir()
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    blocks = BLOCK.findall((REPOSITORY / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 2
    for language, group in itertools.groupby(blocks, key=lambda block: block[0]):
        _, codes, expected = zip(*group, strict=True)  # one process for blocks that follow each other
        code = "\n".join(codes)
        command = (
            [sys.executable, "-c", _with_factory(code)] if language == "python" else ["bash", "-euc", code]
        )
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        for line in "".join(expected).splitlines():
            assert line in done.stdout.splitlines(), code


def _with_factory(code: str) -> str:
    """Where the package was installed before it named its factory to spaCy, name it by importing it."""
    return "import lmcells.integrations.spacy_component\n" + code if "import spacy" in code else code


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    path = REPOSITORY / "docs" / f"{page}.md"
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
