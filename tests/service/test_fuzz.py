"""A few of the notes and requests of `benchmarks/fuzz.py`, which runs by the million."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_nothing_crashes_and_nothing_is_answered_with_a_server_error() -> None:
    command = [sys.executable, "benchmarks/fuzz.py", "--notes", "1000", "--requests", "400", "--seed", "7"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,000 notes expanded" in done.stdout
    assert "; 0 with 5xx" in done.stdout
