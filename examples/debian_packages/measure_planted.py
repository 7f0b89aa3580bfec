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
from associations import Associations
from plant import Pair, read_pairs
from score_table import print_scores
from views import Candidates, View, add_view_options, open_views

from lmcells.corpus import Corpus
from lmcells.errors import InputError, LmcellsError

N_NEAREST = 10
MEASURES = ("nearer", "first 10", "neighbours", "in section")


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
    """Run; what is wrong is one line, and exit code 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_view_options(parser, trained_on="the notes with planted words")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="what plant.py wrote")
    parser.add_argument("--corpus", type=Path, required=True, help="of the notes without planted words")
    parser.add_argument(
        "--half", choices=("choose", "report"), default="report", help="of the pairs (report)"
    )
    try:
        run(parser.parse_args())
    except (LmcellsError, OSError) as error:
        print(f"measure_planted.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
