"""Make the model that ships with lmcells, step by step; a step whose result exists is not repeated.

python benchmarks/default_model.py                               # all of it: a GPU for the training, a CPU for the rest
python benchmarks/default_model.py --only self-training corpus long-forms   # here, then on a machine with a GPU:
python benchmarks/default_model.py --only train finish --seed 1             # needs only torch and numpy
python benchmarks/default_model.py --only compile calibrate priors card

The model is trained on notes in which half of the previous model's (the teacher's) confident expansions replace the
short forms, and on passages and sentences that were written for senses that are rare in the text. In a last step it
reads the written text once more, with the notes that are most like a hospital's (`lmcells train --from`).
"""

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev_sets import benchmark_sets
from locations import ROOT, SETS, text_folder

CONFIG = ROOT / "configs" / "default-model.toml"
CARD = ROOT / "configs" / "default-model-card.md"
PASSAGES = SETS / "passages.jsonl"
SHORT_SENTENCES = SETS / "short_sentences.jsonl"
WRITTEN = (PASSAGES, SHORT_SENTENCES)
SHIPPED_MODEL = "src/lmcells/pretrained/default"
SHIPPED_INVENTORY = ROOT / "src" / "lmcells" / "expansion" / "clinical_inventory.csv"


@dataclass(frozen=True)
class Workshop:
    """Where things come from and go to."""

    data: Path
    folder: Path
    config: dict[str, Any]
    seed: int

    def at(self, name: str) -> Path:
        """Where a result lies; what depends on the random seed is in a folder of its own."""
        seeded = name.split("/", maxsplit=1)[0] in ("trained", "finished", "half_compiled", "model")
        return self.folder / f"seed-{self.seed}" / name if seeded else self.folder / name

    def file(self, name: str) -> Path:
        """A file of training text."""
        return self.data / f"{name}.parquet"

    def files(self) -> list[Path]:
        """The files of training text, each once."""
        return [*map(self.file, self.config["text"]), *(WRITTEN if self.config["written"]["times"] else ())]

    def repeated_files(self) -> list[Path]:
        """Each as often as it is read: one half expanded, then the other half, then as they are."""
        expanded = self.at("expanded_notes")
        sides = {
            name: [side / f"{Path(name).name}.parquet" for side in sorted(expanded.iterdir())]
            for name in self.config["self_training"]["text"]
        }
        files = [
            file
            for name, times in self.config["text"].items()
            for file in [*sides.get(name, []), *[self.file(name)] * times][:times]
        ]
        return [*files, *WRITTEN * self.config["written"]["times"]]

    def counts(self, step: str) -> tuple[object, ...]:
        """How often words and headers must occur in the corpus of a step."""
        settings = self.config[step]
        return "--min-count", settings["min_count"], "--min-header-count", settings["min_header_count"]

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


def git(*arguments: str) -> bytes:
    """Run git in this repository, and return what it prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def self_training(shop: Workshop) -> None:
    """Write training notes with confident expansions of the teacher in place of half of their short forms."""
    settings = shop.config["self_training"]
    with tarfile.open(fileobj=io.BytesIO(git("archive", settings["teacher"], SHIPPED_MODEL))) as archive:
        archive.extractall(shop.at("teacher"), filter="data")
    files = [shop.file(name) for name in settings["text"]]
    given = ("--model", shop.at("teacher") / SHIPPED_MODEL, "--probability", settings["probability"])
    command = [sys.executable, ROOT / "benchmarks" / "self_training.py", *files, *given]
    unfinished = shop.at("expanded_notes.unfinished")
    subprocess.run([*map(str, command), "--output", str(unfinished)], check=True)
    unfinished.rename(shop.at("expanded_notes"))


def write_notes(shop: Workshop, path: Path) -> None:
    """Write notes as the teacher expands them, one half and the other, as text that is not counted."""
    import pyarrow.parquet as pq  # a machine that only trains may lack it

    with path.open("w", encoding="utf-8") as file:
        for side in sorted(shop.at("expanded_notes").iterdir()):
            for name in shop.config["finishing"]["notes"]:
                for note in pq.read_table(side / f"{Path(name).name}.parquet").to_pylist():
                    named = {
                        "id": f"{side.name}/{note['id']}",
                        "category": shop.config["training"]["uncounted"],
                    }
                    file.write(json.dumps(named | {"sections": note["sections"]}) + "\n")


def make_corpus(shop: Workshop) -> None:
    """Prepare the training text and that of the last step, and pack both for the way to another machine."""
    counts = shop.counts("corpus")
    lmcells("prepare", *shop.repeated_files(), *counts, *shop.reading, "--output", shop.at("corpus"))
    write_notes(shop, notes := shop.at("notes.jsonl"))
    lmcells(
        "prepare", *WRITTEN, notes, *shop.counts("finishing"), "--stop-words", "--output", shop.at("written")
    )
    shop.at("commit").write_bytes(git("rev-parse", "--short", "HEAD").strip())
    for name in ("written", "corpus"):
        lmcells("pack", shop.at(name), "--output", shop.at(f"{name}.packed"))


def unpacked(shop: Workshop, name: str) -> Path:
    """Return a corpus, unpacked where it has not been."""
    if not shop.at(name).exists():
        lmcells("unpack", shop.at(f"{name}.packed"), "--output", shop.at(name))
    return shop.at(name)


def find_long_forms(shop: Workshop) -> None:
    """Find the long forms that the text itself abbreviates: the store should know them first."""
    lmcells("inventory", "find", *shop.files(), "--min-count", 1, "--output", shop.at("long_forms.csv"))


def uncounted(shop: Workshop) -> tuple[str, str]:
    """Written text tells what a sense means, not how often it is meant."""
    return "--set", f"training.uncounted={shop.config['training']['uncounted']}"


def train(shop: Workshop) -> None:
    """Train and build the store of phrases."""
    settings = shop.config["training"]
    epochs = ("--epochs", settings["epochs"], "--seed", shop.seed)
    store = ("--dtype", "int8", "--prototypes", settings["prototypes"])
    store += ("--long-forms", shop.at("long_forms.csv"))
    lmcells(
        "train", unpacked(shop, "corpus"), *epochs, *uncounted(shop), *store, "--output", shop.at("trained")
    )


def finish(shop: Workshop) -> None:
    """Adapt the trained model to written text and to notes: half a minute on a GPU, much longer on a CPU."""
    settings = shop.config["finishing"]
    given = ("--from", shop.at("trained"), "--epochs", settings["epochs"], "--seed", shop.seed)
    names = ("learning_rate", "batch_size", "contrastive_spans", "initial_share")
    changed = [argument for name in names for argument in ("--set", f"training.{name}={settings[name]}")]
    written = ("--dtype", "int8", "--output", shop.at("finished"))
    lmcells("train", unpacked(shop, "written"), *given, *changed, *uncounted(shop), *written)


def compile_long_forms(shop: Workshop) -> None:
    """Add the long forms whose words are too rare for the vocabulary."""
    all_words = shop.at("all_words")
    if not all_words.exists():
        counts = ("--min-count", shop.config["compilation"]["min_count"])
        lmcells("prepare", *shop.files(), *counts, *shop.reading, "--output", all_words)
    shutil.rmtree(shop.at("half_compiled"), ignore_errors=True)
    source, found = shop.at("finished"), shop.at("long_forms.csv")
    lists = [
        argument for each in (found, SETS / "casi_inventory.json") for argument in ("--long-forms", each)
    ]
    trimmed = ("--prototypes", shop.config["compilation"]["prototypes"], *lists)
    for inventory, name, more in ((found, "half_compiled", ()), (SHIPPED_INVENTORY, "model", trimmed)):
        given = ("--corpus", all_words, "--model", source, "--output", shop.at(name), *more)
        lmcells("inventory", "compile", inventory, *given)
        source = shop.at(name)


def calibrate(shop: Workshop) -> None:
    """Fit probabilities and thresholds on examples in training text."""
    settings = shop.config["calibration"]
    if not shop.at("examples.jsonl").exists():
        drawn = ("--inventory", SHIPPED_INVENTORY, "--spelled-forms")
        drawn += ("--max-per-sense", settings["max_per_sense"])
        files = [shop.file(name) for name in settings["text"]]
        lmcells("dataset", "reverse", *files, *drawn, "--output", shop.at("examples.jsonl"))
    given = ("--dataset", shop.at("examples.jsonl"), "--inventory", SHIPPED_INVENTORY)
    lmcells("calibrate", shop.at("model"), *given, "--least-probability", settings["least_probability"])


def count_senses(shop: Workshop) -> None:
    """Count how often each sense is meant in training notes."""
    command = [sys.executable, ROOT / "benchmarks" / "sense_priors.py", "--model", shop.at("model")]
    subprocess.run(list(map(str, command)), check=True)


def count_sections(path: Path) -> int:
    """How many passages or sentences a file has."""
    return sum(len(json.loads(line)["sections"]) for line in path.open(encoding="utf-8"))


def write_card(shop: Workshop) -> None:
    """Score the model on documents that it has not seen, and say so in its card."""
    config = json.loads((shop.at("trained") / "config.json").read_text("utf-8"))  # not of the last step
    n_words = len(json.loads((shop.at("model") / "vocabulary.json").read_text("utf-8")))
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
        compiled_at=git("rev-parse", "--short", "HEAD").decode().strip(),
        n_phrases=f"{n_phrases:,}",
        n_passages=f"{count_sections(PASSAGES):,}",
        n_short_sentences=f"{count_sections(SHORT_SENTENCES):,}",
        n_words=f"{n_words:,}",
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
    "finish": (finish, "finished"),
    "compile": (compile_long_forms, "model"),
    "calibrate": (calibrate, "model/calibration.json"),
    "priors": (count_senses, "model/sense_priors.json"),
    "card": (write_card, None),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "default-model", help="folder to work in"
    )
    parser.add_argument("--seed", type=int, help="random seed of the training (the one that ships)")
    parser.add_argument(
        "--no-passages", action="store_true", help="leave the written passages out, to compare"
    )
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="steps (all)")
    options = parser.parse_args()
    config = tomllib.loads(CONFIG.read_text("utf-8"))
    if options.no_passages:
        config["written"]["times"] = 0
    seed = config["training"]["seed"] if options.seed is None else options.seed
    data = Path() if {"train", "finish"}.issuperset(options.only) else text_folder()
    shop = Workshop(data, options.output, config, seed)
    shop.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        step, result = STEPS[name]
        if result is not None and shop.at(result).exists():
            print(f"{name}: done before", flush=True)
        else:
            step(shop)


if __name__ == "__main__":
    main()
