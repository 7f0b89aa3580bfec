"""docs/service.md promises only what works: its services are started, its requests sent, what it prints compared."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from service.serving import served

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/service.md").read_text("utf-8")
BLOCKS = re.findall(
    r"^```(bash|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", PAGE, re.MULTILINE | re.DOTALL
)
STARTED = [code for _, code, _ in BLOCKS if "lmcells serve" in code]
RUN = [(language, code, said) for language, code, said in BLOCKS if code not in STARTED]


@pytest.fixture(scope="module")
def ports(folder: Path) -> Iterator[dict[str, str]]:
    """The services of the page, on free ports; -> theirs by the page's."""
    with ExitStack() as running:
        found = {}
        for command in STARTED:
            variables = dict(re.findall(r"(LMCELLS_\w+)=(\S+)", command))
            (port,) = re.findall(r"--port (\d+)", command)
            service = served(folder, environment=variables, is_shipped=True)
            found[port] = str(running.enter_context(service).port)
        yield found


@pytest.mark.parametrize(
    ("language", "code", "said"), RUN, ids=[f"{each[0]}-{n}" for n, each in enumerate(RUN)]
)
def test_block_runs(language: str, code: str, said: str, ports: dict[str, str], folder: Path) -> None:
    code = re.sub(r"127\.0\.0\.1:(\d+)", lambda match: f"127.0.0.1:{ports[match[1]]}", code)
    if language == "python":
        command = [sys.executable, "-c", code]
    else:
        command = ["bash", "-euo", "pipefail", "-c", code.replace("curl -s", "curl -sS --fail-with-body")]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.strip()
    if said:
        assert done.stdout == said


def test_the_answer_is_the_one_that_is_shown(ports: dict[str, str]) -> None:
    (text,) = re.findall(r'"text": "(LABS: .*?)"', PAGE)
    (shown,) = json.loads(re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0])["expansions"]
    answer = httpx.post(f"http://127.0.0.1:{ports['8000']}/expand", json={"text": text}).json()
    (expansion,) = answer["expansions"]
    for name in ("start", "end", "short_form", "section", "long_form", "source", "abstained"):
        assert expansion[name] == shown[name]
    assert expansion["probability"] == pytest.approx(shown["probability"], abs=0.05)


def test_there_are_services_and_requests() -> None:
    assert len(STARTED) == 2
    assert {language for language, _, _ in RUN} == {"bash", "python"}


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (REPOSITORY / "docs" / target).exists(), target
