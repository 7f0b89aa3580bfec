"""The sets that experiments are scored on: the two benchmarks, and our own two for acronyms that are in neither.

python benchmarks/dev_sets.py      # writes own_notes and own_papers into build/dev-sets

Our own sets are long forms of the inventory of commit b491dba in dev documents, without the short forms of the
benchmarks: at most eight examples per sense, 2,500 in all. The examples are fixed: benchmarks/data/own_sets.tsv lists
them, and their text is read from the dev documents.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lmcells.evaluation.dataset import Example, read_dataset, write_dataset
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.inventory_files import load_inventory
from lmcells.notes.readers import ReadReport
from locations import ROOT, SETS, text_folder

DRAWN = ROOT / "build" / "dev-sets"
TEXTS = {
    "own_notes": ("mtsamples", "aci_bench", "primock57", "medec_ms", "tcga_path_reports", "vaers"),
    "own_papers": (
        "evidence_inference_pmc",
        "medquad",
        "clinical_trials_criteria",
        "e3c_english",
        "elife_medicine",
    ),
}
MOST = 1_000_000  # examples of a sense: all of them


@dataclass(frozen=True)
class DevSet:
    """Labelled short forms, and the senses to choose from."""

    dataset: Path
    inventory: Path

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.dataset.stem

    @cached_property
    def examples(self) -> list[Example]:
        """All of them, read once."""
        return list(read_dataset(self.dataset, report=ReadReport()))

    @cached_property
    def senses(self) -> SenseInventory:
        """The senses to choose from."""
        return load_inventory(self.inventory)


def benchmark_sets() -> list[DevSet]:
    """The two benchmarks."""
    folder = SETS
    return [
        DevSet(folder / "reverse_dev.jsonl", folder / "casi_inventory.json"),
        DevSet(folder / "author_defined_dev.jsonl", folder / "author_defined_inventory.json"),
    ]


def own_sets(folder: Path = DRAWN) -> list[DevSet]:
    """Our own, where their text has been read."""
    found = [DevSet(folder / f"{name}.jsonl", SETS / f"{name}_inventory.csv") for name in TEXTS]
    return [each for each in found if each.dataset.exists()]


def read_own(name: str, ids: set[str], *, output: Path) -> None:
    """Read the examples of one of our own sets from dev documents."""
    files = [text_folder() / "dev" / f"{text}.parquet" for text in TEXTS[name]]
    own = DevSet(output / f"{name}.jsonl", SETS / f"{name}_inventory.csv")
    with tempfile.TemporaryDirectory() as folder:
        every = Path(folder, "every.jsonl")
        command = [
            sys.executable,
            "-m",
            "lmcells",
            "dataset",
            "reverse",
            *files,
            "--inventory",
            own.inventory,
        ]
        options = ["--max-per-sense", MOST, "--allow-candidates", "--output", every]
        subprocess.run(list(map(str, command + options)), check=True)
        found = [example for example in DevSet(every, own.inventory).examples if example.id in ids]
    if len(found) < len(ids):
        sys.exit(f"{name}: {len(ids) - len(found):,} of {len(ids):,} examples are not in the dev documents.")
    write_dataset(own.dataset, sorted(found, key=lambda example: example.id))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=DRAWN, help="folder to write into")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with (SETS / "own_sets.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for name in TEXTS:
        read_own(name, {row["id"] for row in rows if row["set"] == name}, output=options.output)


if __name__ == "__main__":
    main()
