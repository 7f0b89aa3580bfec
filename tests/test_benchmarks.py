"""The benchmarks run: what they measure stands in the README, and what they import moves."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, BENCHMARKS / name, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name",
    sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in ("locations.py", "hostile.py")),
)
def test_each_says_how_it_is_called(name: str) -> None:
    assert f"usage: {name}" in run(name, "--help")


def test_the_engine_is_timed_against_a_straightforward_one() -> None:
    sizes = ("--steps", 1, "--plain-steps", 1, "--tokens", 20_000, "--batch", 256)
    assert "the engine is" in run("training_speed.py", "--device", "cpu", *sizes)


def test_confident_expansions_replace_short_forms_on_one_side(tmp_path: Path) -> None:
    texts = {
        "HISTORY": "She has HTN and a history of MI. MI in 2009. HTN is controlled with amlodipine.",
        "VITALS": "T 98.6, BP 120/80",
        "PLAN": "",
    }
    sections = [{"header": header, "text": text} for header, text in texts.items()]
    notes = tmp_path / "notes.parquet"
    pq.write_table(pa.Table.from_pylist([{"id": "a", "sections": sections}]), notes)
    output = run(
        "self_training.py",
        notes,
        "--model",
        "default",
        "--probability",
        0.9,
        "--output",
        tmp_path / "written",
    )
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
