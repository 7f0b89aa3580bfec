"""docs/reviewing.md promises only what works: its commands are run on a file with reviews."""

import os
import re
import subprocess
import sys
from pathlib import Path

from lmcells import Expander
from lmcells.notes.readers import ReadReport, read_notes
from lmcells.service.review_decisions import Choice
from lmcells.service.review_files import EXPORTS, add_notes, version_of
from lmcells.service.reviews import ReviewStore

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/reviewing.md").read_text("utf-8")
OPENING, EXPORTING = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_run(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    expander = Expander.from_pretrained()
    store = ReviewStore(tmp_path / "reviews.db")
    notes = read_notes(REPOSITORY / "examples/notes/nursing_progress.txt", report=ReadReport())
    add_notes(store, notes, expander)
    (note,) = store.list_notes()
    mention = next(each.expansion for each in note.mentions if each.expansion.short_form == "MS")
    choice = Choice(start=mention.start, end=mention.end, long_form="morphine sulfate", scope="section")
    done = Choice(start=0, end=0, long_form=None, action="done")
    for each in (choice, done):
        store.decide(note.id, each, reviewer="Ana", version=version_of(expander))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", EXPORTING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    assert "MS,morphine sulfate,pin" in (tmp_path / "site.csv").read_text()
    assert "morphine sulfate" in run.stdout
    assert "labelled.jsonl: 1 notes" in run.stdout


def test_all_exports_are_described() -> None:
    assert all(f"`{name}`" in PAGE for name in EXPORTS)
    assert "lmcells review examples/notes --reviews reviews.db" in OPENING
