"""The sets that experiments are scored on: the two benchmarks, and two of our own for acronyms that are in neither.

python benchmarks/dev_sets.py      # draws own_notes and own_papers into build/dev-sets

Our own are long forms of the shipped inventory in dev documents, without the short forms of the benchmarks: at most
eight examples a sense, 2,500 in all.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lmcells.evaluation.dataset import Example, read_dataset, write_dataset
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.inventory import SenseInventory, load_inventory, save_inventory
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
MAX_PER_SENSE = 8
N_EXAMPLES = 2_500


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
    """Our own, where they have been drawn."""
    found = [DevSet(folder / f"{name}.jsonl", folder / f"{name}_inventory.json") for name in TEXTS]
    return [each for each in found if each.dataset.exists()]


def draw(name: str, inventory: SenseInventory, *, output: Path) -> None:
    """Draw one of our own sets from dev documents."""
    files = [text_folder() / "dev" / f"{text}.parquet" for text in TEXTS[name]]
    own = DevSet(output / f"{name}.jsonl", output / f"{name}_inventory.json")
    with tempfile.TemporaryDirectory() as folder:
        senses, every = Path(folder, "senses.csv"), Path(folder, "every.jsonl")
        save_inventory(inventory, senses)
        command = [sys.executable, "-m", "lmcells", "dataset", "reverse", *files, "--inventory", senses]
        options = ["--max-per-sense", MAX_PER_SENSE, "--output", every, "--inventory-output", own.inventory]
        subprocess.run(list(map(str, command + options)), check=True)
        found = DevSet(every, senses).examples
    drawn = random.Random(0).sample(found, min(N_EXAMPLES, len(found)))
    write_dataset(own.dataset, sorted(drawn, key=lambda example: example.id))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=DRAWN, help="folder to draw into")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    in_benchmarks = {short_form for each in benchmark_sets() for short_form in each.senses.short_forms}
    others = (sense for sense in shipped_inventory() if sense.short_form not in in_benchmarks)
    inventory = SenseInventory.from_senses(others)
    for name in TEXTS:
        draw(name, inventory, output=options.output)


if __name__ == "__main__":
    main()
