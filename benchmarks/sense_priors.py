"""Estimate how often each sense of the shipped inventory is meant in notes.

python benchmarks/sense_priors.py      # writes sense_priors.json into the model folder, by default the shipped one

No labels are used. Training notes are of few kinds, so the first guess comes from language models' estimates for notes
in general (benchmarks/data/sense_shares.tsv). Then the model's probabilities, including "no sense fits", are summed
over training notes, and the result becomes the prior of the next pass (expectation-maximisation). All kinds of notes
have the same weight, and the first guess counts as three more kinds; it also stands in for kinds in which a short form
is rare. Short forms in lower case ("hr") are counted separately if there are enough of them or a guess of their own,
those before and after a number ("HR 72", "5 MM") if there is a guess.
"""

import argparse
import csv
import random
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lmcells import Expander
from lmcells.expansion.calibration import Calibration, SensePriors, Writing
from lmcells.expansion.lexicon import Lexicon
from lmcells.expansion.long_forms import Floats
from locations import ROOT, SETS, text_folder

Scores = dict[str, dict[Writing, list[Floats]]]

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
PATTERNS = {"before number": "{} #", "after number": "# {}"}  # as in `Writing`


def read_guess(names: dict[str, list[str]]) -> dict[str, Floats]:
    """Read what language models say: the share of each sense of a short form, and of none, by the key of the priors."""
    said: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    with (SETS / "sense_shares.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            said[row["short_form"], row["written"]][row["long_form"]] = int(row["share"])
    return {
        key_of(short_form, written): first_guess(
            names[short_form], shares, otherwise=0 if written else 100 / len(names[short_form])
        )
        for (short_form, written), shares in said.items()
        if short_form in names and (written != "lower case" or short_form.lower() not in names)
    }


def key_of(short_form: str, written: str) -> str:
    """Return the key of the priors of a short form written so."""
    return short_form.lower() if written == "lower case" else PATTERNS.get(written, "{}").format(short_form)


def first_guess(long_forms: list[str], said: dict[str, int], *, otherwise: float) -> Floats:
    """Return the first guess for the senses of a short form, and for none; those not said have `otherwise`."""
    shares = np.array([max(said.get(each, otherwise), 100 * LEAST) for each in long_forms])
    none = max(GUESSED_NONE, said.get("", 0) / 100)
    return np.append((1 - none) * shares / shares.sum(), none)


def read_notes(group: dict[str, int], seed: int) -> Iterator[str]:
    """Draw notes, each as one text."""
    for name, n in group.items():
        rows: list[dict[str, Any]] = pq.read_table(text_folder() / f"{name}.parquet").to_pylist()
        for row in random.Random(seed).sample(rows, min(n, len(rows))):
            yield "\n\n".join(f"{each['header']}: {each['text']}" for each in row["sections"])


def score_mentions(lexicon: Lexicon, texts: Iterator[str]) -> Scores:
    """Return the scores of all mentions in texts, by short form and how it is written."""
    scores: Scores = defaultdict(lambda: defaultdict(list))
    while batch := [lexicon.read(text) for text in islice(texts, 256)]:
        mentions = [each.mention for note in batch for each in note if each.mention is not None]
        for mention, own in zip(mentions, lexicon.ranker.scores(mentions), strict=True):
            scores[mention.short_form][Writing.of(mention)].append(own)
    return scores


def by_key(short_form: str, groups: list[Scores], keys: Container[str]) -> dict[str, list[list[Floats]]]:
    """Return the scores of a short form in each group of notes, by the first key of how it is written."""
    found: dict[str, list[list[Floats]]] = {}
    for at, group in enumerate(groups):
        for writing, scores in group.get(short_form, {}).items():
            key = next(each for each in writing.keys(short_form) if each in keys)
            found.setdefault(key, [[] for _ in groups])[at] += scores
    return found


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
    names = {
        short_form: [sense.long_form for sense in expander.inventory.senses(short_form)]
        for short_form in expander.inventory.short_forms
    }
    said = read_guess(names)
    n_spellings = Counter(short_form.lower() for short_form in names)
    groups = [score_mentions(expander.lexicon(), read_notes(group, options.seed)) for group in GROUPS]
    shares = {}
    for short_form, long_forms in names.items():
        small = short_form.lower()
        numbered = [key for pattern in PATTERNS.values() if (key := pattern.format(short_form)) in said]
        keys = [*numbered, short_form]
        if small != short_form and n_spellings[small] == 1:
            of_small = by_key(short_form, groups, [*keys, small]).get(small, [])
            if small in said or any(len(each) >= MIN_MENTIONS for each in of_small):
                keys.append(small)
        scores = by_key(short_form, groups, keys)
        for key in keys:
            of_groups = scores.get(key, [[] for _ in groups])
            guess = said.get(key, said.get(short_form))
            if guess is not None:
                found = [guess] * GUESS_WEIGHT + [
                    estimate(each, guess, expander.calibration) for each in of_groups
                ]
            else:
                guess, many = first_guess(long_forms, {}, otherwise=1), MIN_MENTIONS
                found = [
                    estimate(each, guess, expander.calibration) for each in of_groups if len(each) >= many
                ]
            if found:
                rounded = [float(f"{share:.2g}") for share in np.mean(found, axis=0).clip(1e-4)]
                shares[key] = dict(zip([*long_forms, ""], rounded, strict=True))
    SensePriors(dict(sorted(shares.items()))).save(options.model)
    print(f"priors of {len(names):,} short forms: {len(shares):,}")


if __name__ == "__main__":
    main()
