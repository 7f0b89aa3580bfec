"""The guides to inventories promise only what works: their blocks are run in order, and what they print is compared."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lmcells.errors import ModelError
from lmcells.pretrained.folder import shipped_model

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("page", "n_blocks"), [("inventories.md", 5), ("own-senses.md", 5)])
def test_the_page_does_what_it_says(page: str, n_blocks: int, tmp_path: Path) -> None:
    try:
        shipped_model()
    except ModelError:
        pytest.skip("this build ships no model")
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(blocks) == n_blocks
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, code, expected in blocks:
        python = [sys.executable, "-c", code]
        done = subprocess.run(
            python if language == "python" else ["bash", "-euo", "pipefail", "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if expected:
            assert done.stdout.strip() == expected.strip()
