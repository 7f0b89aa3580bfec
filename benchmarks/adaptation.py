"""Compare a model adapted to another kind of text with the unadapted model and with training from scratch.

python benchmarks/adaptation.py --from MODEL --text FILE     # a model that has not read the file

The figures in docs/training.md are for the model of commit 2d46b09; the model that ships now has read both files.

Three quarters of the documents are used for training. In the others, long forms of the shipped inventory are replaced
with their short forms, which each model must expand. Prints a table; works in build/adaptation.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lmcells.expansion.inventory_files import save_inventory
from lmcells.expansion.layers import shipped_inventory
from locations import ROOT, text_folder

PARTS = ("train", "test")
SAME_STEPS = (
    "--set",
    "training.batch_size=2048",
    "--set",
    "training.contrastive_spans=1024",
)  # as the preset adapt has
READING = ("--stop-words", "--spell-out", 0.5, "--min-count", 3, "--min-header-count", 5)


def lmcells(*arguments: Any) -> str:
    """Run a command; -> what it prints."""
    command = [sys.executable, "-m", "lmcells", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def documents(path: Path, part: str) -> Iterator[dict[str, Any]]:
    """The documents of one part, chosen by a hash of their ids."""
    for row in pq.read_table(path, columns=["id", "sections"]).to_pylist():
        is_test = int(hashlib.sha1(row["id"].encode()).hexdigest(), 16) % 4 == 0
        if is_test == (part == "test"):
            yield row


def scores(model: str | Path, folder: Path) -> tuple[float, float]:
    """Accuracy and macro F1 on the documents that were left out."""
    given = ("--dataset", folder / "test.dataset.jsonl", "--inventory", folder / "senses.json")
    (found,) = json.loads(lmcells("evaluate", model, *given, "--no-leakage-check", "--json"))
    return found["accuracy"], found["macro_f1"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", default="train2/vaers_recent.parquet", help="file of LMCELLS_DATA")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "adaptation", help="folder to work in"
    )
    parser.add_argument("--from", dest="base", default="default", help="model to adapt (default)")
    parser.add_argument("--scratch-epochs", type=int, default=2, help="of the model from scratch (2)")
    parser.add_argument(
        "--set", action="append", default=[], help="settings of both trainings: table.key=value"
    )
    options = parser.parse_args()
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        rows = documents(text_folder() / options.text, part)
        (folder / f"{part}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    save_inventory(shipped_inventory(), folder / "shipped.csv")
    corpus, again = folder / "corpus", "--overwrite"
    lmcells("prepare", folder / "train.jsonl", "--output", corpus, *READING, again)
    drawn = ("--inventory", folder / "shipped.csv", "--max-per-sense", 20, again)
    written = ("--output", folder / "test.dataset.jsonl", "--inventory-output", folder / "senses.json")
    lmcells("dataset", "reverse", folder / "test.jsonl", *drawn, *written)
    settings = [part for setting in options.set for part in ("--set", setting)]
    ways = {
        "from scratch": ["--epochs", options.scratch_epochs, *SAME_STEPS],
        "adapted": ["--from", options.base],
    }
    print("| model | accuracy | macro F1 | minutes |\n|---|---|---|---|", flush=True)
    print("| as it is | {:.3f} | {:.3f} | |".format(*scores(options.base, folder)), flush=True)
    for name, arguments in ways.items():
        model, started = folder / name.replace(" ", "-"), time.monotonic()
        lmcells("train", corpus, "--output", model, *arguments, *settings, again)
        minutes = (time.monotonic() - started) / 60
        print("| {} | {:.3f} | {:.3f} | {:.1f} |".format(name, *scores(model, folder), minutes), flush=True)


if __name__ == "__main__":
    main()
