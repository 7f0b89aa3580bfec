"""Where benchmarks find their data: sets in `benchmarks/data`, text in the folder named by LMCELLS_DATA."""

import hashlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETS = ROOT / "benchmarks" / "data"
EXAMPLES = ROOT / "examples" / "notes"
VARIABLE = "LMCELLS_DATA"


def text_folder() -> Path:
    """Return the folder that holds train/, train2/ and dev/; exit with one line where it is missing."""
    given = os.environ.get(VARIABLE)
    if not given:
        sys.exit(
            f"no text to measure on: set {VARIABLE} to a folder with train/, train2/ and dev/ (see docs/data.md)."
        )
    if not Path(given, "dev").is_dir():
        sys.exit(
            f"{VARIABLE}: {given} has no folder dev. It should hold train/, train2/ and dev/ (see docs/data.md)."
        )
    return Path(given)


def notes_or_examples(name: str) -> Path:
    """Return a file of notes such as "dev/mtsamples_raw.parquet" where it exists, otherwise the notes of examples/."""
    path = Path(os.environ.get(VARIABLE, ""), name)
    return path if path.is_file() else EXAMPLES


def half_of(id_: str) -> str:
    """Return the half of a set that a note is in, by the parity of the SHA-1 of its id: rules are found on the even."""
    return "odd" if hashlib.sha1(id_.encode()).digest()[-1] % 2 else "even"
