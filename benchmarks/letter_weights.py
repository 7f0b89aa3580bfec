"""Learn from the shipped inventory how clinicians shorten words: weights of `lmcells.expansion.letters`.

python benchmarks/letter_weights.py      # prints the weights, and how often they rank the true word first

For each pair of a short form and a single word that it may abbreviate (abdo, abdomen), the true word competes with all
other words of the model's vocabulary that it may abbreviate; the weights maximise the likelihood of the true words,
without any context. Half of the pairs, chosen by a hash, are held out.
"""

import argparse
import zlib

import numpy as np
import numpy.typing as npt

from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.letters import FEATURES, LetterSenses, features
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

Floats = npt.NDArray[np.float64]
_STEPS, _RATE, _SHRINK = 2000, 0.2, 0.01


def pairs(letters: LetterSenses) -> list[tuple[str, Floats, int]]:
    """Return (short form, features of its candidates, which is true) of each pair that has several candidates."""
    found = []
    for sense in shipped_inventory():
        short_form, word = sense.short_form.lower(), sense.long_form.lower()
        if len(short_form) > 2 and short_form.isalpha() and word.isalpha():
            words = [each.long_form for each in letters.senses(short_form)]
            if word in words and len(words) > 1:
                table = np.array([features(each, short_form) for each in words], np.float64)
                found.append((short_form, table, words.index(word)))
    return found


def fit(examples: list[tuple[str, Floats, int]]) -> Floats:
    """Maximise the likelihood of the true words, by gradient ascent."""
    weights = np.zeros(len(FEATURES))
    for _ in range(_STEPS):
        gradient = -_SHRINK * weights
        for _, table, truth in examples:
            p = np.exp(table @ weights - (table @ weights).max())
            gradient += (table[truth] - p @ table / p.sum()) / len(examples)
        weights += _RATE * gradient
    return weights


def first(examples: list[tuple[str, Floats, int]], weights: Floats) -> float:
    """Return how often the true word has the highest weight."""
    return float(np.mean([int((table @ weights).argmax()) == truth for _, table, truth in examples]))


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    examples = pairs(LetterSenses(PretrainedModel.from_pretrained(model_folder(None))))
    held_out = [each for each in examples if zlib.crc32(each[0].encode()) % 2]
    rest = [each for each in examples if not zlib.crc32(each[0].encode()) % 2]
    weights = fit(rest)
    by_chance = np.mean([1 / len(table) for _, table, _ in held_out])
    print(f"{len(rest)} pairs to learn from, {len(held_out)} held out: the true word is first in")
    print(f"{first(held_out, weights):.2f} of them ({by_chance:.2f} by chance), without any context")
    for name, weight in zip(FEATURES, fit(examples), strict=True):
        print(f"{name:>16} {weight:6.2f}   (all pairs)")


if __name__ == "__main__":
    main()
