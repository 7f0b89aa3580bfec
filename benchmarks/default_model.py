"""Make the model that ships with lmcells, step by step; a step whose result exists is not repeated.

python benchmarks/default_model.py                        # all of it: a GPU for the trainings, a CPU for the rest
python benchmarks/default_model.py --round first --only corpus long-forms   # here, then on a machine with a GPU:
python benchmarks/default_model.py --round first --only train               # needs torch and numpy alone
python benchmarks/default_model.py --round first --only compile calibrate

There are two rounds. The model of the first expands the training notes; the second is trained on notes in which half of
the confident expansions replace their short forms (self-training).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dev_sets import benchmark_sets
from locations import ROOT, text_folder

CONFIG = ROOT / "configs" / "default-model.toml"
CARD = ROOT / "configs" / "default-model-card.md"
SHIPPED_INVENTORY = ROOT / "src" / "lmcells" / "expansion" / "clinical_inventory.csv"
ROUNDS = ("first", "second")


@dataclass(frozen=True)
class Workshop:
    """Where things of one round come from and go to."""

    name: str  # of the round
    data: Path
    folder: Path
    config: dict[str, Any]
    first: Self | None = None  # the round before

    def at(self, name: str) -> Path:
        """Where a result lies."""
        return self.folder / name

    def files(self) -> list[Path]:
        """The files of training text, each once."""
        return [self.file(name) for name in self.config["text"]]

    def repeated_files(self) -> list[Path]:
        """Each as often as it is read: one half expanded, then the other half, then as they are."""
        return [
            file
            for name, times in self.config["text"].items()
            for file in [*self._expanded(name), *[self.file(name)] * times][:times]
        ]

    def file(self, name: str) -> Path:
        """A file of training text."""
        return self.data / "train" / f"{name}.parquet"

    def _expanded(self, name: str) -> list[Path]:
        if self.first is None or name not in self.config["self_training"]["text"]:
            return []
        return [side / f"{name}.parquet" for side in sorted(self.at("expanded_notes").iterdir())]

    @property
    def reading(self) -> tuple[object, ...]:
        """How `lmcells prepare` is to read them."""
        settings = self.config["corpus"]
        stop_words = ("--stop-words",) if settings["stop_words"] else ()
        return (*stop_words, "--spell-out", settings["spelled_out"])


def lmcells(*arguments: object) -> str:
    """Run a command as a user would, and return what it prints."""
    command = [sys.executable, "-m", "lmcells", *map(str, arguments)]
    print("$ lmcells", *(Path(each).name if "/" in each else each for each in command[3:]), flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def head() -> str:
    """The commit that is checked out."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def self_training(shop: Workshop) -> None:
    """Training notes with confident expansions of the first round's model in place of half of their short forms."""
    assert shop.first is not None
    settings = shop.config["self_training"]
    files = [shop.file(name) for name in settings["text"]]
    given = ("--model", shop.first.at("model"), "--probability", settings["probability"])
    command = [sys.executable, ROOT / "benchmarks" / "self_training.py", *files, *given]
    unfinished = shop.at("expanded_notes.unfinished")
    subprocess.run([*map(str, command), "--output", str(unfinished)], check=True)
    unfinished.rename(shop.at("expanded_notes"))


def make_corpus(shop: Workshop) -> None:
    """The training text as ids, packed for the way to another machine."""
    settings = shop.config["corpus"]
    counts = ("--min-count", settings["min_count"], "--min-header-count", settings["min_header_count"])
    lmcells("prepare", *shop.repeated_files(), *counts, *shop.reading, "--output", shop.at("corpus"))
    shop.at("commit").write_text(head(), encoding="utf-8")
    lmcells("pack", shop.at("corpus"), "--output", shop.at("corpus.packed"))


def find_long_forms(shop: Workshop) -> None:
    """Find the long forms that the text itself abbreviates: the store should know them first."""
    lmcells(
        "inventory",
        "find",
        *shop.files(),
        "--min-count",
        1,
        "--output",
        shop.at("long_forms.csv"),
    )


def train(shop: Workshop) -> None:
    """Train and build the store of phrases."""
    if not shop.at("corpus").exists():
        lmcells("unpack", shop.at("corpus.packed"), "--output", shop.at("corpus"))
    settings = shop.config["training"]
    store = (
        "--dtype",
        "int8",
        "--prototypes",
        settings["prototypes"],
        "--long-forms",
        shop.at("long_forms.csv"),
    )
    seed = settings["seeds"][shop.name]
    lmcells("train", shop.at("corpus"), "--seed", seed, *store, "--output", shop.at("trained"))


def compile_long_forms(shop: Workshop) -> None:
    """Add the long forms whose words are too rare for the vocabulary."""
    min_count = shop.config["compilation"]["min_count"]
    if not shop.at("all_words").exists():
        lmcells(
            "prepare",
            *shop.files(),
            "--min-count",
            min_count,
            *shop.reading,
            "--output",
            shop.at("all_words"),
        )
    shutil.rmtree(shop.at("half_compiled"), ignore_errors=True)
    source = shop.at("trained")
    for inventory, output in (
        (shop.at("long_forms.csv"), shop.at("half_compiled")),
        (SHIPPED_INVENTORY, shop.at("model")),
    ):
        lmcells(
            "inventory",
            "compile",
            inventory,
            "--corpus",
            shop.at("all_words"),
            "--model",
            source,
            "--output",
            output,
        )
        source = output


def calibrate(shop: Workshop) -> None:
    """Fit probabilities and thresholds on examples in training text."""
    settings = shop.config["calibration"]
    files = [shop.file(name) for name in settings["text"]]
    drawn = (
        "--inventory",
        SHIPPED_INVENTORY,
        "--max-per-sense",
        settings["max_per_sense"],
        "--spelled-forms",
    )
    lmcells("dataset", "reverse", *files, *drawn, "--output", shop.at("examples.jsonl"))
    lmcells(
        "calibrate",
        shop.at("model"),
        "--dataset",
        shop.at("examples.jsonl"),
        "--inventory",
        SHIPPED_INVENTORY,
    )


def write_card(shop: Workshop) -> None:
    """Score the model on documents that it has not seen, and say so in its card."""
    config = json.loads((shop.at("model") / "config.json").read_text("utf-8"))
    rows = []
    for dev_set in benchmark_sets():
        given = ("--dataset", dev_set.dataset, "--inventory", dev_set.inventory)
        scores = json.loads(lmcells("evaluate", shop.at("model"), *given, "--json"))[0]
        sure = json.loads(lmcells("calibrate", shop.at("model"), *given, "--check", "--json"))
        rows.append(
            f"| `{dev_set.name}`, {scores['n']:,} examples | {scores['accuracy']:.3f} | {scores['macro_f1']:.3f} | "
            f"{sure['calibration_error']:.3f} | {sure['coverage_at_95']:.0%} | {sure['none_fits_auroc']:.2f} |"
        )
    n_phrases = len(json.loads((shop.at("model") / "phrases.json").read_text("utf-8")))
    size = sum(file.stat().st_size for file in shop.at("model").iterdir())
    card = CARD.read_text("utf-8").format(
        scores="\n".join(rows),
        read_at=shop.at("commit").read_text("utf-8"),
        compiled_at=head(),
        n_phrases=f"{n_phrases:,}",
        n_words=f"{config['corpus']['sizes']['n_words']:,}",
        n_tokens=f"{config['corpus']['sizes']['n_tokens'] / 1e6:.1f}",
        minutes=f"{config['training']['seconds'] / 60:.0f}",
        size=f"{size / 1e6:.1f}",
    )
    (shop.at("model") / "README.md").write_text(card, encoding="utf-8")
    print(card)


STEPS = {
    "self-training": (self_training, "expanded_notes"),
    "corpus": (make_corpus, "corpus.packed"),
    "long-forms": (find_long_forms, "long_forms.csv"),
    "train": (train, "trained"),
    "compile": (compile_long_forms, "model"),
    "calibrate": (calibrate, "model/calibration.json"),
    "card": (write_card, None),
}


def take_steps(shop: Workshop, names: list[str]) -> None:
    """Take the steps that are not done; the first round has no self-training and no card."""
    shop.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        step, result = STEPS[name]
        if shop.first is None and name in ("self-training", "card"):
            continue
        if result is not None and shop.at(result).exists():
            print(f"{name}: done before", flush=True)
            continue
        step(shop)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "default-model", help="folder to work in"
    )
    parser.add_argument("--round", choices=ROUNDS, help="one of the two (both)")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="steps (all)")
    options = parser.parse_args()
    data = text_folder()
    config = tomllib.loads(CONFIG.read_text("utf-8"))
    first = Workshop("first", data, options.output / "first", config)
    second = Workshop("second", data, options.output / "second", config, first)
    for shop in (first, second):
        if options.round in (None, shop.name):
            print(f"{shop.name} round", flush=True)
            take_steps(shop, options.only)


if __name__ == "__main__":
    main()
