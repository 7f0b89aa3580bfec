"""The README promises only what works: its blocks are run, and what it prints is compared."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
RUN = [(language, code) for language, code in BLOCKS if language in ("bash", "python")]


@pytest.fixture
def beside_examples(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    return tmp_path


@pytest.mark.parametrize(
    ("language", "code"), RUN, ids=[f"{language}-{i}" for i, (language, _) in enumerate(RUN)]
)
def test_block_runs(language: str, code: str, beside_examples: Path) -> None:
    command = (
        [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=beside_examples,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = _output_after(code)
    if expected is not None:
        assert done.stdout.strip() == expected.strip()


def _output_after(code: str) -> str | None:
    """Return the text block that follows a code block at once: what it prints."""
    following = README[README.index(code) + len(code) :]
    match = re.match(r"```\n\n```text\n(.*?)^```", following, re.MULTILINE | re.DOTALL)
    return match[1] if match else None


def test_there_are_blocks_to_run() -> None:
    assert {language for language, _ in RUN} == {"bash", "python"}


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target
