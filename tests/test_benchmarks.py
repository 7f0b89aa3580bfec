"""The benchmarks run: what they measure stands in the README, and what they import moves."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ALL_HELP = """
import contextlib, runpy, sys
sys.path.insert(0, ".")
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    with contextlib.suppress(SystemExit):
        runpy.run_path(name, run_name="__main__")
"""  # in one process: what they import is imported once


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, BENCHMARKS / name, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_says_how_it_is_called() -> None:
    names = sorted(
        path.name for path in BENCHMARKS.glob("*.py") if path.name not in ("locations.py", "hostile.py")
    )
    printed = subprocess.run(
        [sys.executable, "-c", ALL_HELP, *names], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    usages = re.findall(r"^usage: (\S+)", printed.stdout, re.MULTILINE)
    assert usages == names, printed.stderr


def test_the_engine_is_timed_against_a_straightforward_one() -> None:
    sizes = "--tokens 20_000 --words 1_000 --steps 1 --batch 32 --plain-steps 1 --plain-batch 4"
    assert "the engine is" in run("training_speed.py", "--device", "cpu", *sizes.split())


def test_confident_expansions_replace_short_forms_on_one_side(tmp_path: Path) -> None:
    texts = {
        "HISTORY": "She has HTN and a history of MI. MI in 2009. HTN is controlled with amlodipine.",
        "VITALS": "T 98.6, BP 120/80",
        "PLAN": "",
    }
    sections = [{"header": header, "text": text} for header, text in texts.items()]
    notes = tmp_path / "notes.parquet"
    pq.write_table(pa.Table.from_pylist([{"id": "a", "sections": sections}]), notes)
    options = ("--model", "default", "--probability", 0.9, "--output", tmp_path / "written")
    output = run("self_training.py", notes, *options)
    sides = [
        pq.read_table(tmp_path / "written" / side / notes.name).to_pylist()[0]["sections"]
        for side in ("one", "other")
    ]
    assert output == "notes.parquet: 5 short forms expanded\n"
    for short_form, long_form, n in (("HTN", "hypertension", 2), ("BP", "blood pressure", 1)):
        counts = [
            (text.count(short_form), text.lower().count(long_form))
            for text in ("\n".join(section["text"] for section in side) for side in sides)
        ]
        assert sorted(counts) == [(0, n), (n, 0)]
    assert all("T 98.6" in side[1]["text"] for side in sides)
    assert [side[2]["text"] for side in sides] == ["", ""]


def test_all_stages_are_timed_on_invented_notes(tmp_path: Path) -> None:
    model = "--set model.window=2 --set model.n_section_draws=1 --set model.hidden_dim=8"
    sizes = "--tokens 3e4 3.5e4 --batch-size 512 --max-per-sense 5 --workers 1 --device cpu"
    lines = run("end_to_end.py", "--output", tmp_path, *f"{sizes} {model}".split()).splitlines()
    rows = json.loads((tmp_path / "results.json").read_text())
    stages = [row["stage"] for row in rows]
    assert stages[: len(stages) // 2] == stages[len(stages) // 2 :]
    assert stages[1:5] == ["prepare", "train, start", "train, steps", "train, end"]
    assert len(lines) == len(rows) + 2
    seconds = {row["stage"]: row["seconds"] for row in rows[: len(rows) // 2]}
    parts = sum(seconds[f"train, {part}"] for part in ("start", "steps", "end"))
    assert parts == pytest.approx(seconds["train, all"], abs=0.1)
    assert min(row["peak_gigabytes"] for row in rows if row["peak_gigabytes"] is not None) > 0


def test_the_same_seed_invents_the_same_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from end_to_end import COLUMNS, write_block

    first, again, other = (write_block(3, seed=seed, n_tokens=2000) for seed in (1, 1, 2))
    assert first == again != other
    rows = list(csv.reader(io.StringIO(first.decode(), newline="")))
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert any("\n" in row[-1] and '"' in row[-1] for row in rows)
