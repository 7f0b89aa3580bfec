"""Measure accuracy by frequency of the true long form in the training text: 0, 1 to 4, 5 to 19, 20 times or more.

python benchmarks/rare_senses.py default [MODEL ...]     # needs LMCELLS_DATA; counting takes some minutes, once

The examples are those of all four dev sets (benchmarks/dev_sets.py); all wordings of a sense count. Written passages
are not counted: they were written for rare senses.
"""

import argparse
import json
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq

from dev_sets import benchmark_sets, own_sets
from lmcells.evaluation.calibrate import score_mentions
from lmcells.expansion.ranking import best_ranker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder
from locations import ROOT, text_folder

CONFIG = ROOT / "configs" / "default-model.toml"
COUNTS = ROOT / "build" / "long_form_counts.json"
BOUNDS = ((0, 0), (1, 4), (5, 19), (20, None))
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> tuple[str, ...]:
    """Split text into words as they are counted."""
    return tuple(_WORD.findall(text.lower()))


def count_phrases(phrases: set[tuple[str, ...]]) -> Counter[str]:
    """Count phrases in the training text; of two that begin at one word the longer counts."""
    beginning: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in sorted(phrases, key=len, reverse=True):
        beginning[phrase[0]].append(phrase)
    counts: Counter[str] = Counter()
    for name in tomllib.loads(CONFIG.read_text("utf-8"))["text"]:
        table = pq.read_table(text_folder() / f"{name}.parquet", columns=["sections"])
        for sections in table["sections"].to_pylist():
            for section in sections:
                words = words_of(section["text"] or "")
                for at, word in enumerate(words):
                    for phrase in beginning.get(word, ()):
                        if words[at : at + len(phrase)] == phrase:
                            counts[" ".join(phrase)] += 1
                            break
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="model folders, or default")
    options = parser.parse_args()
    sets = [*benchmark_sets(), *own_sets()]
    forms = {
        (number, sense.short_form, sense.long_form): {words_of(form) for form in sense.forms} - {()}
        for number, each in enumerate(sets)
        for sense in each.senses
    }
    if not COUNTS.exists():
        COUNTS.parent.mkdir(exist_ok=True)
        COUNTS.write_text(json.dumps(count_phrases(set().union(*forms.values()))), encoding="utf-8")
    counts = json.loads(COUNTS.read_text("utf-8"))
    for name in options.models:
        model = PretrainedModel.from_pretrained(model_folder(name))
        right: dict[tuple[int, int | None], list[bool]] = defaultdict(list)
        for number, each in enumerate(sets):
            senses = {short_form: each.senses.senses(short_form) for short_form in each.senses.short_forms}
            for short_form, scores, truth in score_mentions(
                best_ranker(model, each.senses), each.examples, each.senses
            ):
                wordings = forms[number, short_form, senses[short_form][truth].long_form]
                n = sum(counts.get(" ".join(form), 0) for form in wordings)
                bounds = next(pair for pair in BOUNDS if pair[1] is None or n <= pair[1])
                right[bounds].append(int(scores.argmax()) == truth)
        cells = []
        for least, most in BOUNDS:
            found = right[least, most]
            label = f"{least} to {most}" if most else "20 and more" if least else "0"
            cells.append(f"{label}: {sum(found) / max(1, len(found)):.3f} of {len(found):,}")
        print(f"{Path(name).name}: {'; '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
