"""Measure how well models rank written sentences that were left out of training.

python benchmarks/left_out_sentences.py default [MODEL ...]

`benchmarks/data/passages_left_out.jsonl` has one in sixteen of the sentences for rare senses, all sentences of one
rare sense in sixteen, one in sixteen of the sentences of hospital notes and one in four of the short sentences, both
for senses of frequent short forms; none of them are in
`passages.jsonl`. Each long form is replaced with its ambiguous short form, and the model ranks all senses of the
shipped inventory, without priors. Then with the model's priors, each sentence counted as often as language models say
that notes mean its sense (`benchmarks/data/sense_shares.tsv`): accuracy and negative log-likelihood.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path

import numpy as np

from dev_sets import DevSet
from lmcells.evaluation.calibrate import ScoredMention, score_mentions
from lmcells.evaluation.dataset import Example
from lmcells.expansion import SenseInventory
from lmcells.expansion.calibration import Calibration, SensePriors, Writing
from lmcells.expansion.ranking import best_ranker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder
from locations import ROOT, SETS

LEFT_OUT = SETS / "passages_left_out.jsonl"
INVENTORY = ROOT / "src" / "lmcells" / "expansion" / "clinical_inventory.csv"


def long_forms_of(path: Path) -> set[str]:
    """The long forms that a file has passages of."""
    return {json.loads(line)["long_form"] for line in path.open(encoding="utf-8")}


def judge(
    examples: Sequence[Example],
    scored: Sequence[ScoredMention],
    model: PretrainedModel,
    senses: SenseInventory,
    shares: Mapping[tuple[str, str], float],
) -> Iterator[tuple[float, float, float, float]]:
    """Yield, for each example, its weight, whether it is right, its loss, and whether it stands beside a number."""
    calibration, priors = Calibration.load(model.folder), SensePriors.load(model.folder)
    for example, (short_form, scores, truth) in zip(examples, scored, strict=True):
        names = [sense.long_form for sense in senses.senses(short_form)]
        writing = Writing.of(example.mention)
        prior, none_prior = priors.of(short_form, names, writing)
        probabilities, _ = calibration.judge(scores, prior=prior, none_prior=none_prior, weight=priors.weight)
        weight = shares.get((short_form, example.long_form), 1 / len(names)) * len(names)
        is_right = int(np.argmax(probabilities)) == truth
        yield weight, is_right, -log(max(probabilities[truth], 1e-9)), writing.pattern != "{}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="model folders, or default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        drawn = DevSet(Path(folder, "left_out.jsonl"), INVENTORY)
        command = [sys.executable, "-m", "lmcells", "dataset", "reverse", LEFT_OUT, "--inventory", INVENTORY]
        subprocess.run(
            [*map(str, command), "--output", str(drawn.dataset)], check=True, stdout=subprocess.DEVNULL
        )
        # Only what a sentence was written for: "passages/LONG FORM/KIND".
        examples = {
            kind: [each for each in drawn.examples if f"/{each.long_form}/{kind}" in each.note_id]
            for kind in ("sentences", "settings", "short")
        }
    has_sentences = long_forms_of(SETS / "passages.jsonl")
    rare = examples["sentences"]
    kinds = {
        "rare senses with other sentences": [each for each in rare if each.long_form in has_sentences],
        "rare senses without": [each for each in rare if each.long_form not in has_sentences],
        "hospital notes, frequent short forms": examples["settings"],
        "short sentences of frequent short forms": examples["short"],
    }
    with (SETS / "sense_shares.tsv").open(encoding="utf-8", newline="") as file:
        shares = {
            (row["short_form"], row["long_form"]): int(row["share"]) / 100
            for row in csv.DictReader(file, delimiter="\t")
            if not row["written"]
        }
    for name in options.models:
        model = PretrainedModel.from_pretrained(model_folder(name))
        ranker = best_ranker(model, drawn.senses)
        for kind, chosen in kinds.items():
            scored = score_mentions(ranker, chosen, drawn.senses)
            right = [int(scores.argmax()) == truth for _, scores, truth in scored]
            print(f"{Path(name).name}, {kind}: {sum(right) / len(right):.3f} of {len(right):,}", flush=True)
            if chosen is not examples["settings"] and chosen is not examples["short"]:
                continue
            judged = np.array(list(judge(chosen, scored, model, drawn.senses, shares)))
            for title, rows in (("all", judged), ("beside a number", judged[judged[:, 3] > 0])):
                right, loss = np.average(rows[:, 1:3], axis=0, weights=rows[:, 0])
                print(
                    f"  with priors, {title}: accuracy {right:.3f}, NLL {loss:.3f} ({len(rows):,})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
