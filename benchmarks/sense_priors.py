"""Estimate how often each sense of the shipped inventory is meant in notes.

python benchmarks/sense_priors.py      # writes sense_priors.json into the model folder, by default the shipped one

No labels are used. Training notes are of few kinds, so the first guess comes from language models' estimates for notes
in general (benchmarks/data/sense_shares.tsv). Then the model's probabilities, including "no sense fits", are summed
over training notes, and the result becomes the prior of the next pass (expectation-maximisation). All kinds of notes
have the same weight, and the first guess counts as three more kinds; it also stands in for kinds in which a short form
is rare. Short forms in lower case ("hr") are counted separately if there are enough of them.
"""

import argparse
import csv
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lmcells import Expander
from lmcells.expansion.calibration import Calibration, SensePriors
from lmcells.expansion.lexicon import Lexicon
from lmcells.expansion.long_forms import Floats
from locations import ROOT, SETS, text_folder

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
    {"train/e3c_english": 3000, "train/clinical_trials_criteria": 500, "train2/openem_conditions": 400},
)
MIN_MENTIONS = 12  # of a short form in a group
PASSES = 3
GUESSED_NONE = 0.1  # share of "no sense fits" in the first guess
LEAST = 0.003  # share of a sense in the first guess
GUESS_WEIGHT = 3  # kinds of notes that the first guess counts for


def read_guess() -> dict[str, dict[str, float]]:
    """Read what language models say: the share of each sense of a short form."""
    guess: dict[str, dict[str, float]] = defaultdict(dict)
    with (SETS / "sense_shares.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            guess[row["short_form"]][row["long_form"]] = int(row["share"]) / 100
    return guess


def first_guess(long_forms: list[str], said: dict[str, float]) -> Floats:
    """Return the first guess for the senses of a short form, and for none."""
    shares = np.array([max(said.get(each, 1 / len(long_forms)), LEAST) for each in long_forms])
    return np.append((1 - GUESSED_NONE) * shares / shares.sum(), GUESSED_NONE)


def read_notes(group: dict[str, int], seed: int) -> Iterator[str]:
    """Draw notes, each as one text."""
    for name, n in group.items():
        rows: list[dict[str, Any]] = pq.read_table(text_folder() / f"{name}.parquet").to_pylist()
        for row in random.Random(seed).sample(rows, min(n, len(rows))):
            yield "\n\n".join(f"{each['header']}: {each['text']}" for each in row["sections"])


def score_mentions(lexicon: Lexicon, texts: Iterator[str]) -> dict[tuple[str, bool], list[Floats]]:
    """Return the scores of all mentions in texts, by short form and whether it is in lower case."""
    scores: dict[tuple[str, bool], list[Floats]] = defaultdict(list)
    while batch := [lexicon.read(text) for text in islice(texts, 256)]:
        mentions = [each.mention for note in batch for each in note if each.mention is not None]
        for mention, own in zip(mentions, lexicon.ranker.scores(mentions), strict=True):
            written = mention.text[mention.start : mention.end]
            small = written.islower() and written != mention.short_form
            scores[mention.short_form, small].append(own)
    return scores


def estimate(scores: list[Floats], guess: Floats, calibration: Calibration) -> Floats:
    """Return the share of each sense, and of none, in the mentions of a short form; `guess` counts as one a sense."""
    if not scores:
        return guess
    table = (
        np.stack([np.append(each, calibration.none_score or 0.0) for each in scores])
        / calibration.temperature
    )
    prior = guess
    for _ in range(PASSES):
        logits = table + np.log(prior * len(prior))
        posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = (posterior.sum(axis=0) + len(guess) * guess) / (len(table) + len(guess))
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
    said = read_guess()
    names = {
        short_form: [sense.long_form for sense in expander.inventory.senses(short_form)]
        for short_form in expander.inventory.short_forms
    }
    guesses = {each: first_guess(names[each], said.get(each, {})) for each in names}
    n_spellings = Counter(short_form.lower() for short_form in names)
    small = {each.lower(): each for each in names if n_spellings[each.lower()] == 1}
    scored = [score_mentions(expander.lexicon(), read_notes(group, options.seed)) for group in GROUPS]
    found: dict[str, list[Floats]] = {}
    for short_form, in_lower_case in {*((each, False) for each in said if each in names), *chain(*scored)}:
        key = short_form.lower() if in_lower_case else short_form
        groups = [each.get((short_form, in_lower_case), []) for each in scored]
        if in_lower_case and (key not in small or max(map(len, groups)) < MIN_MENTIONS):
            continue
        guess = guesses[short_form]
        if short_form in said:
            found[key] = [
                *[guess] * GUESS_WEIGHT,
                *(estimate(scores, guess, expander.calibration) for scores in groups),
            ]
        elif many := [scores for scores in groups if len(scores) >= MIN_MENTIONS]:
            found[key] = [estimate(scores, guess, expander.calibration) for scores in many]
    shares = {
        key: dict(
            zip(
                [*names[small.get(key, key)], ""],
                [float(f"{share:.2g}") for share in np.mean(found[key], axis=0).clip(1e-4)],
                strict=True,
            )
        )
        for key in sorted(found)
    }
    SensePriors(shares).save(options.model)
    print(f"priors of {len(shares):,} short forms")


if __name__ == "__main__":
    main()
