"""Four answers to "which words are near this word in this section", and a table that compares them.

The cell p(z | word, section) is the model's own; the others lack the section or the word, or come from a model without
metadata.
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from plant import meanings_of

from lmcells.analysis.cells import WordCells, expected_sections, kl_divergence
from lmcells.analysis.names import section_id, word_id
from lmcells.analysis.senses import AGAINST, MEASURES, cosine_similarity
from lmcells.errors import InputError, LmcellsError
from lmcells.pretrained import NumpyGaussian, PretrainedModel

Distances = npt.NDArray[np.float64]
Scores = npt.NDArray[np.float64]  # (words, measures)
View = Callable[[str, str], Distances]  # word, section -> distance of each candidate: (n_words,)

N_RESAMPLES = 2_000


class Candidates:
    """The words that may be neighbours: those seen often enough, except some."""

    def __init__(self, cells: WordCells, *, min_count: int, without: frozenset[str] = frozenset()) -> None:
        model = cells.model
        words = model.words
        frequent = cells.frequent(min_count)
        self.ids = frequent[[words[id_] not in without for id_ in frequent.tolist()]]
        self.words = [words[id_] for id_ in self.ids.tolist()]
        self.index = {word: index for index, word in enumerate(self.words)}
        self._at_home: dict[str, list[str]] = {}
        for meaning, _ in meanings_of(words, model.statistics, model.sections, min_count=min_count):
            if meaning.word in self.index:
                self._at_home.setdefault(meaning.section, []).append(meaning.word)

    def at_home(self, section: str, *, without: Collection[str]) -> list[int]:
        """The indices of the words at home in a section, except some."""
        return [self.index[word] for word in self._at_home.get(section, ()) if word not in without]

    def __len__(self) -> int:
        return len(self.words)


def add_view_options(parser: argparse.ArgumentParser, *, trained_on: str) -> None:
    """Add the options that say which models to look at, and what is near."""
    parser.add_argument("--model", type=Path, required=True, help=f"trained on {trained_on}")
    parser.add_argument("--bsg", type=Path, metavar="MODEL", help="the same with --kind bsg")
    parser.add_argument(
        "--against", choices=AGAINST, default="expected", help="cells of the others (expected)"
    )
    parser.add_argument("--by", choices=MEASURES, default="divergence", help="what is near (divergence)")
    parser.add_argument(
        "--min-count", type=int, default=20, metavar="N", help="of words that are compared (20)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def open_views(
    options: argparse.Namespace, *, without: frozenset[str] = frozenset()
) -> tuple[Candidates, Mapping[str, View]]:
    """The views of a model, and of a BSG trained on the same corpus if there is one."""
    cells = WordCells(PretrainedModel.from_pretrained(options.model))
    candidates = Candidates(cells, min_count=options.min_count, without=without)
    of_sections = expected_sections(cells.model)

    def distances(cell: NumpyGaussian, of: WordCells, section: str | None = None) -> Distances:
        others = of.of(candidates.ids, section)
        if options.by == "divergence":
            return kl_divergence(cell, others)
        return -cosine_similarity(cell, others).astype(np.float64)

    def word_in_section(word: str, section: str) -> Distances:
        cell = cells.of(np.array([word_id(cells.model, word)]), section)
        return distances(cell, cells, section if options.against == "section" else None)

    def word_alone(of: WordCells) -> View:
        return lambda word, _section: distances(of.of(np.array([word_id(of.model, word)]), None), of)

    def section_alone(_word: str, section: str) -> Distances:
        row = np.array([section_id(cells.model, section)])
        mean, variance = of_sections.mean[row], of_sections.within[row]
        return distances(NumpyGaussian(mean.astype(np.float32), np.log(variance).astype(np.float32)), cells)

    views = {"cell": word_in_section, "word alone": word_alone(cells), "section alone": section_alone}
    if options.bsg is not None:
        plain = WordCells(PretrainedModel.from_pretrained(options.bsg))
        if plain.model.words != cells.model.words:
            raise InputError(
                f"{options.bsg} and {options.model} do not have the same words. Train both on one corpus."
            )
        views["BSG"] = word_alone(plain)
    return candidates, views


def print_scores(
    scores: Mapping[str, Scores],
    measures: Sequence[str],
    *,
    title: str,
    about: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print a row a view, or everything as JSON: means over words, with 95 % bootstrap intervals."""
    summary = {}
    for view, of_words in scores.items():
        draws = np.random.default_rng(0).integers(len(of_words), size=(N_RESAMPLES, len(of_words)))
        ends = np.quantile(of_words[draws].mean(axis=1), (0.025, 0.975), axis=0)  # (2, measures)
        rows = np.vstack([of_words.mean(axis=0), ends]).T.tolist()
        names = ("mean", "low", "high")
        of_measures = (dict(zip(names, row, strict=True)) for row in rows)
        summary[view] = dict(zip(measures, of_measures, strict=True))
    if as_json:
        print(json.dumps({**about, "views": summary}, indent=1))
        return
    print(f"{title}; mean and 95 % interval")
    print(f"{'':14}" + "".join(f"{measure:>20}" for measure in measures))
    for view, of_view in summary.items():
        shown = (f"{each['mean']:.2f} ({each['low']:.2f} to {each['high']:.2f})" for each in of_view.values())
        print(f"{view:14}" + "".join(f"{each:>20}" for each in shown))


def run_script(run: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> int:
    """Run a script; an error is one line, and exit code 2."""
    try:
        run(parser.parse_args())
    except (LmcellsError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0
