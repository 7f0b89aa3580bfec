"""Measure how well models rank written sentences that were left out of training.

python benchmarks/left_out_sentences.py default [MODEL ...]

`benchmarks/data/passages_left_out.jsonl` has one in sixteen of the sentences for rare senses, all sentences of one
rare sense in sixteen, one in sixteen of the sentences of hospital notes and one in four of the short sentences, both
for senses of frequent short forms; none of them are in
`passages.jsonl`. Each long form is replaced with its ambiguous short form, and the model ranks all senses of the
shipped inventory, without priors.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from dev_sets import DevSet
from lmcells.evaluation.calibrate import score_mentions
from lmcells.expansion.ranking import best_ranker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder
from locations import ROOT, SETS

LEFT_OUT = SETS / "passages_left_out.jsonl"
INVENTORY = ROOT / "src" / "lmcells" / "expansion" / "clinical_inventory.csv"


def long_forms_of(path: Path) -> set[str]:
    """The long forms that a file has passages of."""
    return {json.loads(line)["long_form"] for line in path.open(encoding="utf-8")}


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
    for name in options.models:
        ranker = best_ranker(PretrainedModel.from_pretrained(model_folder(name)), drawn.senses)
        for kind, chosen in kinds.items():
            scored = score_mentions(ranker, chosen, drawn.senses)
            right = [int(scores.argmax()) == truth for _, scores, truth in scored]
            print(f"{Path(name).name}, {kind}: {sum(right) / len(right):.3f} of {len(right):,}", flush=True)


if __name__ == "__main__":
    main()
