"""Fit how scores depend on the number of words read: the constants of `comparable` in `ranking`.

python benchmarks/short_windows.py build/default-model/examples.jsonl     # a dataset of training text; needs scipy

Reads mentions with all words around them and with only a few, with all senses and with a fifth of them removed, and
fits the temperature of the scores and the score of "no sense fits" by likelihood: in bins of windows of similar length,
and as straight lines over log(N / n), where n of at most N words are in the window.
"""

import argparse
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from lmcells.evaluation.calibrate import TAKEN_OUT, score_mentions
from lmcells.evaluation.dataset import Example, parse_example
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.ranking import MaskedSpanRanker, Scorer
from lmcells.expansion.windows import Mask, Mention, missing_words
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder
from lmcells.pretrained.network import NumpyPosterior

WORDS_LEFT = (2, 4, 6, 9, 13, 20, None, None)
BINS = (0, 4, 8, 13, 21, 29, 33)
Floats = npt.NDArray[np.float64]
_WORD = re.compile(r"\S+")


class RawRanker(MaskedSpanRanker):
    """Scores that are not made comparable, and how many words were read for each."""

    missing: list[float]

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        self.missing = []
        return super().scores(mentions)

    def scorer(self, posterior: NumpyPosterior, read: Mask) -> Scorer:
        self.missing += missing_words(read)[:, 0].tolist()
        return super().scorer(posterior, np.ones_like(read))


def shorten(example: Example, n_words: int, draw: random.Random) -> Example:
    """Leave so many words around a short form, at random before and after it."""
    before = list(_WORD.finditer(example.text[: example.start]))
    after = list(_WORD.finditer(example.text[example.end :]))
    n_before = min(draw.randint(0, n_words), len(before))
    n_after = min(n_words - n_before, len(after))
    start = before[-n_before].start() if n_before else example.start
    end = example.end + (after[n_after - 1].end() if n_after else 0)
    return replace(
        example, text=example.text[start:end], start=example.start - start, end=example.end - start
    )


def surprise(
    table: Floats, truths: npt.NDArray[np.intp], temperature: Floats | float, none: Floats | float
) -> float:
    """Mean negative log-likelihood of the true senses; the last column is for none."""
    scores = table.copy()
    scores[:, -1] = none
    scores /= np.broadcast_to(temperature, len(scores))[:, None]
    return float((np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(scores)), truths]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--examples", type=int, default=3000)
    options = parser.parse_args()
    draw = random.Random(0)
    with options.dataset.open("rb") as file:
        examples = draw.sample([parse_example(line) for line in file], options.examples)
    inventory = shipped_inventory()
    ranker = RawRanker(PretrainedModel.from_pretrained(model_folder(options.model)), inventory)

    senses = [
        (short_form, at)
        for short_form in inventory.short_forms
        for at in range(len(inventory.senses(short_form)))
    ]
    taken = set(draw.sample(senses, round(TAKEN_OUT * len(senses))))
    rows: list[tuple[Floats, int, float]] = []  # scores, the true one (-1: none), log(N / n)
    for n_words in WORDS_LEFT:
        shortened = [each if n_words is None else shorten(each, n_words, draw) for each in examples]
        scored = score_mentions(ranker, shortened, inventory)
        for each, missing in zip(scored, ranker.missing, strict=True):
            kept = [at for at in range(len(each.scores)) if (each.short_form, at) not in taken]
            rows.append((each.scores, each.truth, missing))
            if kept:
                truth = kept.index(each.truth) if each.truth in kept else -1
                rows.append((each.scores[kept], truth, missing))
    table = np.full((len(rows), max(len(scores) for scores, _, _ in rows) + 1), -np.inf)
    for row, (scores, _, _) in zip(table, rows, strict=True):
        row[: len(scores)] = scores
    truths, missing = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])

    def of_line(x: Floats) -> float:
        return surprise(table, truths, np.maximum(0.1, x[0] + x[1] * missing), x[2] + x[3] * missing)

    def of_bin(x: Floats, rows: npt.NDArray[np.intp]) -> float:
        return surprise(table[rows], truths[rows], max(0.1, x[0]), x[1])

    n_read = (2 * ranker.model.sizes.window + 1) * np.exp(-missing) - 1
    line = minimize(of_line, [1.0, 0.2, 7.0, -1.5], method="Nelder-Mead")
    print("| words read | mentions | temperature, line | none, line | NLL |")
    print("|---|---|---|---|---|")
    for low, high in pairwise(BINS):
        rows_of_bin = np.flatnonzero((n_read > low - 0.5) & (n_read < high - 0.5))
        best = minimize(of_bin, [1.0, 6.0], args=(rows_of_bin,), method="Nelder-Mead")
        at = missing[rows_of_bin].mean()
        print(
            f"| {low} to {high - 1} | {len(rows_of_bin):,} | {best.x[0]:.2f}, {line.x[0] + line.x[1] * at:.2f} "
            f"| {best.x[1]:.2f}, {line.x[2] + line.x[3] * at:.2f} | {best.fun:.3f} |"
        )
    one = minimize(lambda x: of_bin(x, np.arange(len(rows))), [1.0, 6.0], method="Nelder-Mead")
    print(f"one temperature and score of none for all: NLL {one.fun:.3f}; the lines: {line.fun:.3f}")
    print(
        f"fits above {line.x[2]:.2f}, by length {-line.x[3]:.2f}; scale by length {line.x[1] / line.x[0]:.2f}"
    )


if __name__ == "__main__":
    main()
