"""Count how often each sense of the shipped inventory is meant in training notes, as a model reads them.

python benchmarks/sense_priors.py      # writes sense_priors.json into the model folder, by default the shipped one

No labels: the model's own probabilities are added up over notes, "no sense fits" among them, and the result becomes the
prior of the next pass (expectation-maximisation). Kinds of notes count alike, so that no kind dominates.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lmcells import Expander
from lmcells.expansion.calibration import PRIOR_WEIGHT, Calibration, SensePriors
from lmcells.expansion.lexicon import Lexicon
from lmcells.expansion.long_forms import Floats
from locations import ROOT, text_folder

GROUPS = (  # kinds of notes that count alike, and how many documents of each file are read
    {
        "train/vaers": 12000,
        "train2/vaers_rest": 12000,
        "train2/vaers_recent": 2000,
        "train2/neiss_fireworks": 500,
    },
    {"train/mtsamples": 1460},
    {"train/aci_bench": 500, "train/primock57": 100, "train/medec_ms": 1000},
    {"train/tcga_path_reports": 800},
    {"train/e3c_english": 3000, "train/clinical_trials_criteria": 500},
)
MIN_MENTIONS = 12  # of a short form in a group
PASSES = 3


def read_notes(group: dict[str, int], seed: int) -> Iterator[str]:
    """Draw notes, each as one text."""
    for name, n in group.items():
        rows: list[dict[str, Any]] = pq.read_table(text_folder() / f"{name}.parquet").to_pylist()
        for row in random.Random(seed).sample(rows, min(n, len(rows))):
            yield "\n\n".join(f"{each['header']}: {each['text']}" for each in row["sections"])


def score_mentions(lexicon: Lexicon, texts: Iterator[str]) -> dict[str, list[Floats]]:
    """Return the scores of all mentions in texts, by short form."""
    scores: dict[str, list[Floats]] = defaultdict(list)
    while batch := [lexicon.read(text) for text in islice(texts, 256)]:
        mentions = [each.mention for note in batch for each in note if each.mention is not None]
        for mention, own in zip(mentions, lexicon.ranker.scores(mentions), strict=True):
            scores[mention.short_form].append(own)
    return scores


def estimate(scores: list[Floats], calibration: Calibration) -> Floats:
    """Return the share of each sense, and of none, in the mentions of a short form."""
    table = (
        np.stack([np.append(each, calibration.none_score or 0.0) for each in scores])
        / calibration.temperature
    )
    start = prior = np.full(table.shape[1], 1.0 / table.shape[1])
    for _ in range(PASSES):
        logits = table + PRIOR_WEIGHT * np.log(prior / start)
        posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = (posterior.sum(axis=0) + 1.0) / (len(table) + table.shape[1])
    return prior


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, default=ROOT / "src/lmcells/pretrained/default", help="model folder"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the notes that are read (0)")
    options = parser.parse_args()
    expander = Expander.from_pretrained(options.model, letters=False)
    found: dict[str, list[Floats]] = defaultdict(list)
    for group in GROUPS:
        for short_form, scores in score_mentions(expander.lexicon(), read_notes(group, options.seed)).items():
            if len(scores) >= MIN_MENTIONS:
                found[short_form].append(estimate(scores, expander.calibration))
    shares = {}
    for short_form in sorted(found):
        names = [*(sense.long_form for sense in expander.inventory.senses(short_form)), ""]
        mean = np.mean(found[short_form], axis=0).round(4).tolist()
        shares[short_form] = dict(zip(names, mean, strict=True))
    SensePriors(shares).save(options.model)
    print(f"priors of {len(shares):,} short forms")


if __name__ == "__main__":
    main()
