"""Do real words with several meanings move with the section as a person expects?

    python measure_real.py --model model --bsg bsg
    python measure_real.py --model model --bsg bsg --words kernel board     # and the ten nearest words, as they are

`senses.toml` lists words, two sections each, and up to ten words expected near each. For each word and section:

- in first 10, 50: how many of the expected words are among the ten and fifty nearest;
- right order: how often a word expected in this section is nearer than a word expected in the other one. An answer that
  does not depend on the section is right in half of all cases, whatever it is;
- in section: how often an expected word is nearer than another word at home in this section (chance: half). An answer
  that knows the section only, and not the word, can do that only by leaning on what is common there.
"""

import argparse
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from views import Candidates, Distances, View, add_view_options, open_views, print_scores, run_script

from lmcells.errors import FormatError, InputError

N_NEAREST, N_NEAR = 10, 50
MEASURES = (f"in first {N_NEAREST}", f"in first {N_NEAR}", "right order", "in section")


@dataclass(frozen=True)
class Expected:
    """A section, and the words that are expected near a word there."""

    section: str
    words: tuple[str, ...]


Senses = tuple[Expected, Expected]


def read_senses(path: Path, candidates: Candidates) -> dict[str, Senses]:
    """Read the list; what the model does not know is left out of it."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path} is not TOML: {error}.") from None
    senses = {}
    for word, sections in tables.items():
        if not isinstance(sections, dict) or len(sections) != 2:
            raise FormatError(f"{path}: {word!r} needs two sections, each with the words expected there.")
        first, second = (
            Expected(section, tuple(each for each in words.split() if each in candidates.index))
            for section, words in sections.items()
        )
        if word in candidates.index and first.words and second.words:
            senses[word] = (first, second)
    if not senses:
        raise InputError(f"the model knows no word of {path}. Train it on the notes of make_notes.py.")
    return senses


def score(word: str, senses: Senses, view: View, candidates: Candidates) -> npt.NDArray[np.float64]:
    """The mean of each measure over both meanings of a word: (4,)."""
    rows = []
    for own, other in permutations(senses):
        distances = far_from(word, own.section, view, candidates)
        near = np.argsort(distances, kind="stable")[:N_NEAR].tolist()
        expected, foreign = ({candidates.index[each] for each in sense.words} for sense in (own, other))
        is_right = (
            distances[sorted(expected - foreign)][:, None] < distances[sorted(foreign - expected)]
        )  # (expected, foreign)
        here = candidates.at_home(own.section, without=(word, *own.words))
        in_section = distances[sorted(expected)][:, None] < distances[here]  # (expected, at home)
        rows.append(
            (
                len(expected.intersection(near[:N_NEAREST])),
                len(expected.intersection(near)),
                is_right.mean(),
                in_section.mean() if here else 0.5,
            )
        )
    means: npt.NDArray[np.float64] = np.array(rows, np.float64).mean(axis=0)
    return means


def far_from(word: str, section: str, view: View, candidates: Candidates) -> Distances:
    """How far each candidate is; the word itself is no neighbour."""
    distances = view(word, section).copy()
    distances[candidates.index[word]] = np.inf
    return distances


def show(word: str, senses: Senses, views: Mapping[str, View], candidates: Candidates) -> None:
    """Print the ten nearest words of each view; the expected ones in capitals."""
    for expected in senses:
        print(f"\n{word} in {expected.section}; expected: {' '.join(expected.words)}")
        for name, view in views.items():
            order = np.argsort(far_from(word, expected.section, view, candidates), kind="stable")
            near = [candidates.words[id_] for id_ in order[:N_NEAREST]]
            print(
                f"  {name:14}" + " ".join(each.upper() if each in expected.words else each for each in near)
            )


def run(options: argparse.Namespace) -> None:
    """Measure every view, and print a table."""
    candidates, views = open_views(options)
    senses = read_senses(options.senses, candidates)
    if unknown := [word for word in options.words if word not in senses]:
        raise InputError(f"{unknown[0]!r} is not in {options.senses}, or the model does not know it.")
    n_expected = np.mean([len(each.words) for both in senses.values() for each in both])
    print_scores(
        {
            name: np.array([score(word, each, view, candidates) for word, each in senses.items()])
            for name, view in views.items()
        },
        MEASURES,
        title=f"{len(senses)} words in two sections each, {n_expected:.1f} expected words, of {len(candidates):,}",
        about={"n_senses": len(senses), "n_words": len(candidates)},
        as_json=options.json,
    )
    for word in options.words:
        show(word, senses[word], views, candidates)


def main() -> int:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_view_options(parser, trained_on="the notes of make_notes.py")
    parser.add_argument(
        "--senses",
        type=Path,
        default=Path(__file__).with_name("senses.toml"),
        metavar="FILE",
        help="words, sections and what is expected (senses.toml)",
    )
    parser.add_argument(
        "--words", nargs="+", default=[], metavar="WORD", help="show the nearest words of these"
    )
    return run_script(run, parser)


if __name__ == "__main__":
    sys.exit(main())
