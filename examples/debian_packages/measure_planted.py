"""Do planted words mean what they should under each of their two sections?

    python measure_planted.py --model planted-model --bsg planted-bsg --pairs pairs.json --corpus corpus

For each planted word and each of its two sections, of all words:

- nearer: the word that it stands for there is nearer than the other one (chance: half);
- first 10: that word is among the ten nearest;
- neighbours: of the ten nearest, both words aside, how many belong to that word rather than to the other, by counts in
  the text without planted words (chance: half);
- in section: how many of the other words at home in that section are further away (chance: half): an answer that knows
  the section only, and not the word, is no better than that.
"""

import argparse
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from plant import Pair, read_pairs
from views import Candidates, View, add_view_options, open_views, print_scores, run_script

from lmcells.corpus import Corpus
from lmcells.errors import InputError

N_NEAREST = 10
MEASURES = ("nearer", "first 10", "neighbours", "in section")
WINDOW = 5
N_CONTEXTS = 3_000

Floats = npt.NDArray[np.float32]


class Associations:
    """How similar words are in a corpus, by counting alone: a judge that is independent of our models.

    Words are compared by the cosine of their positive pointwise mutual information with the most frequent words,
    PPMI(w, c) = max(0, log p(w, c) / (p(w) p(c))), over windows of five words on each side.

    associations = Associations(corpus)
    associations.belongs("melody", to="guitar", rather_than="compiler")
    """

    def __init__(self, corpus: Corpus) -> None:
        self._ids = {word: id_ for id_, word in enumerate(corpus.words)}
        vectors = positive_information(count_together(corpus))
        self._unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def belongs(self, word: str, *, to: str, rather_than: str) -> bool:
        """Whether a word is more similar to one word than to the other."""
        unit = self._unit[self._ids[word]]
        return bool(unit @ self._unit[self._ids[to]] > unit @ self._unit[self._ids[rather_than]])


def count_together(corpus: Corpus) -> Floats:
    """How often each word occurs near each of the most frequent ones: (V, C). Windows end at the end of a document."""
    tokens = np.asarray(corpus.tokens, np.int64)
    segments = np.asarray(corpus.token_segment)
    n_words = len(corpus.words)
    n_contexts = min(N_CONTEXTS, n_words)  # ids are by frequency, the most frequent first
    counts = np.zeros(n_words * n_contexts, np.float32)
    for distance in range(1, WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        is_same = segments[:-distance] == segments[distance:]
        for word, context in ((left, right), (right, left)):
            kept = is_same & (context < n_contexts)
            pairs = word[kept] * n_contexts + context[kept]
            counts += np.bincount(pairs, minlength=counts.size).astype(np.float32)
    return counts.reshape(n_words, n_contexts)


def positive_information(counts: Floats) -> Floats:
    """Positive pointwise mutual information of rows and columns: (V, C) -> (V, C)."""
    of_words, of_contexts = counts.sum(axis=1, keepdims=True), counts.sum(axis=0, keepdims=True)
    expected = of_words * (of_contexts / max(float(counts.sum()), 1.0))
    ratio = np.divide(counts, expected, out=np.ones_like(counts), where=counts > 0)
    information: Floats = np.log(ratio)
    return np.maximum(information, 0)


def score(
    pair: Pair, view: View, *, candidates: Candidates, associations: Associations
) -> npt.NDArray[np.float64]:
    """The mean of each measure over both meanings of a planted word: (4,)."""
    index = candidates.index
    rows = []
    for own, other in permutations(pair.meanings):
        both = (own.word, other.word)
        distances = view(pair.word, own.section)
        near = [candidates.words[id_] for id_ in np.argsort(distances, kind="stable")[: N_NEAREST + 2]]
        neighbors = [word for word in near if word not in both][:N_NEAREST]
        belong = [associations.belongs(each, to=own.word, rather_than=other.word) for each in neighbors]
        here = candidates.at_home(own.section, without=both)
        rows.append(
            (
                distances[index[own.word]] < distances[index[other.word]],
                own.word in near[:N_NEAREST],
                np.mean(belong),
                np.mean(distances[here] > distances[index[own.word]]) if here else 0.5,
            )
        )
    means: npt.NDArray[np.float64] = np.array(rows, np.float64).mean(axis=0)
    return means


def run(options: argparse.Namespace) -> None:
    """Measure every view on one half of the pairs, and print a table."""
    pairs = read_pairs(options.pairs)
    candidates, views = open_views(options, without=frozenset(pair.word for pair in pairs))
    words = {meaning.word for pair in pairs for meaning in pair.meanings}
    if missing := sorted(words - candidates.index.keys()):
        raise InputError(
            f"{options.model} has seen {len(missing)} of the {len(words)} words of {options.pairs} fewer than "
            f"{options.min_count} times, {missing[0]!r} for one. Lower --min-count, or give the model of these pairs."
        )
    associations = Associations(Corpus.open(options.corpus))
    chosen = [pair for pair in pairs if pair.is_reported == (options.half == "report")]
    scores = {
        name: [score(pair, view, candidates=candidates, associations=associations) for pair in chosen]
        for name, view in views.items()
    }
    print_scores(
        {name: np.array(each) for name, each in scores.items()},
        MEASURES,
        title=f"{len(chosen)} planted words to {options.half}, among {len(candidates):,} words",
        about={"half": options.half, "n_pairs": len(chosen), "n_words": len(candidates)},
        as_json=options.json,
    )


def main() -> int:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_view_options(parser, trained_on="the notes with planted words")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="what plant.py wrote")
    parser.add_argument("--corpus", type=Path, required=True, help="of the notes without planted words")
    parser.add_argument(
        "--half", choices=("choose", "report"), default="report", help="of the pairs (report)"
    )
    return run_script(run, parser)


if __name__ == "__main__":
    sys.exit(main())
