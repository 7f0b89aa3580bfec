"""How often each sense of an inventory is written out in training text: whole words, any case, all its forms.

    python benchmarks/inventory_coverage.py                            # the summary
    python benchmarks/inventory_coverage.py --output coverage.csv      # and a row a sense, the rarest first

The text is every Parquet file of a folder (`../shared/data/train`, see its README) but `mtsamples_raw`, which repeats
`mtsamples`. A sense that is common and yet never found is often worded as nobody writes it: try other forms.
"""

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lmcells.errors import LmcellsError
from lmcells.evaluation.long_form_finder import lower_text
from lmcells.expansion import Sense, SenseInventory, load_inventory
from lmcells.notes.readers import ReadReport, read_notes

REPOSITORY = Path(__file__).resolve().parents[1]
TEXT = REPOSITORY.parent / "shared/data/train"
INVENTORY = REPOSITORY / "src/lmcells/expansion/clinical_inventory.csv"
SKIPPED = frozenset({"mtsamples_raw"})
FEW = 10

# A sentence's end is a word too, so that no phrase is found across it.
WORD = re.compile(r"[^\W_]+|[.;:?!](?=\s)")
ENDS = ""  # no word: under it a node holds the senses whose form ends there


def words_of(text: str) -> list[str]:
    return WORD.findall(lower_text(text))


class SenseCounter:
    """Counts the forms of many senses in one pass over the words of a text, by a tree of their words."""

    def __init__(self, senses: Iterable[Sense]) -> None:
        self.counts: Counter[int] = Counter()  # by the number of the sense
        self.n_words = 0
        self._tree: dict[str, Any] = {}
        for number, sense in enumerate(senses):
            for words in {tuple(words_of(form)) for form in sense.forms} - {()}:
                node = self._tree
                for word in words:
                    node = node.setdefault(word, {})
                node.setdefault(ENDS, []).append(number)

    def add(self, text: str) -> None:
        """Count a text; of two forms of one sense that overlap, the one that begins first."""
        words = words_of(text)
        self.n_words += len(words)
        n_words, tree = len(words), self._tree
        free_from: dict[int, int] = {}
        for start, word in enumerate(words):
            node = tree.get(word)
            at = start + 1
            found: dict[int, int] = {}
            while node is not None:
                for number in node.get(ENDS, ()):
                    found[number] = at
                node = node.get(words[at]) if at < n_words else None
                at += 1
            for number, end in found.items():
                if start >= free_from.get(number, 0):
                    self.counts[number] += 1
                    free_from[number] = end


def read_texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.parquet")):
        if path.stem not in SKIPPED:
            for note in read_notes(path, report=ReadReport()):
                yield note.text


def print_summary(inventory: SenseInventory, counts: list[int], n_words: int) -> None:
    n_ambiguous = sum(len(inventory.senses(short_form)) > 1 for short_form in inventory.short_forms)
    print(
        f"short forms                        {len(inventory):8,}, {n_ambiguous:,} of them with two senses or more"
    )
    print(
        f"senses                             {len(counts):8,}, {len(counts) / len(inventory):.2f} a short form"
    )
    print(f"forms                              {sum(len(sense.forms) for sense in inventory):8,}")
    print(f"words of text                      {n_words:8,}")
    for name, n_senses in (
        ("senses never written out", sum(count == 0 for count in counts)),
        (f"senses written out 1 to {FEW - 1} times", sum(0 < count < FEW for count in counts)),
        (f"senses written out {FEW} times or more", sum(count >= FEW for count in counts)),
    ):
        print(f"{name:35}{n_senses:8,}  {n_senses / len(counts):6.1%}")


def write_counts(path: Path, inventory: SenseInventory, counts: list[int]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("count", "short_form", "long_form", "forms"))
        for count, sense in sorted(zip(counts, inventory, strict=True), key=lambda pair: pair[0]):
            writer.writerow((count, sense.short_form, sense.long_form, ";".join(sense.forms)))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="folder of Parquet files")
    parser.add_argument("--inventory", type=Path, default=INVENTORY)
    parser.add_argument("--output", type=Path, help="write a CSV, a row a sense")
    arguments = parser.parse_args()
    if not any(arguments.text.glob("*.parquet")):
        print(f"{arguments.text} holds no Parquet file. Name a folder that does.", file=sys.stderr)
        return 2
    try:
        inventory = load_inventory(arguments.inventory)
        counter = SenseCounter(inventory)
        for text in read_texts(arguments.text):
            counter.add(text)
    except LmcellsError as error:
        print(error, file=sys.stderr)
        return 2
    counts = [counter.counts[number] for number in range(inventory.n_senses)]
    print_summary(inventory, counts, counter.n_words)
    if arguments.output:
        write_counts(arguments.output, inventory, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
