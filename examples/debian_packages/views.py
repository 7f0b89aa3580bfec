"""Four answers to "which words are near this word in this section", so that they can be compared.

The cell p(z | word, section) is the model's own; the others lack the section or the word, or are of a model without
metadata.
"""

import argparse
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from plant import meanings_of

from lmcells.analysis.cells import WordCells, expected_sections, kl_divergence
from lmcells.analysis.names import section_id, word_id
from lmcells.analysis.neighbors import AGAINST, MEASURES, cosine_similarity
from lmcells.errors import InputError
from lmcells.pretrained import NumpyGaussian, PretrainedModel

Distances = npt.NDArray[np.float64]
View = Callable[[str, str], Distances]  # word, section -> how far each candidate is: (n_words,)

CELL, WORD_ALONE, SECTION_ALONE, BSG = "cell", "word alone", "section alone", "BSG"


class Candidates:
    """The words that may be neighbours: those seen often enough, less some."""

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
        """Where the words are that have their home in a section, less some."""
        return [self.index[word] for word in self._at_home.get(section, ()) if word not in without]

    def __len__(self) -> int:
        return len(self.words)


def add_view_options(parser: argparse.ArgumentParser, *, trained_on: str) -> None:
    """Which models to look at, and what is near."""
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
    """The views of a model, and of a BSG of the same corpus where there is one."""
    cells = WordCells(PretrainedModel.from_pretrained(options.model))
    candidates = Candidates(cells, min_count=options.min_count, without=without)
    measure = options.by
    views = {
        CELL: cell_view(cells, candidates, against=options.against, measure=measure),
        WORD_ALONE: word_view(cells, candidates, measure=measure),
        SECTION_ALONE: section_view(cells, candidates, measure=measure),
    }
    if options.bsg is not None:
        plain = WordCells(PretrainedModel.from_pretrained(options.bsg))
        if plain.model.words != cells.model.words:
            raise InputError(
                f"{options.bsg} and {options.model} do not have the same words. Train both on one corpus."
            )
        views[BSG] = word_view(plain, candidates, measure=measure)
    return candidates, views


def cell_view(cells: WordCells, candidates: Candidates, *, against: str, measure: str) -> View:
    """From p(z | word, section); to the others' cells under the same section, or to their expected ones."""

    def distances(word: str, section: str) -> Distances:
        others = cells.of(candidates.ids, section if against == "section" else None)
        return far(cells.of(np.array([word_id(cells.model, word)]), section), others, measure=measure)

    return distances


def word_view(cells: WordCells, candidates: Candidates, *, measure: str) -> View:
    """From the word's expected cell, whatever the section."""

    def distances(word: str, _section: str) -> Distances:
        cell = cells.of(np.array([word_id(cells.model, word)]), None)
        return far(cell, cells.of(candidates.ids, None), measure=measure)

    return distances


def section_view(cells: WordCells, candidates: Candidates, *, measure: str) -> View:
    """From the section's expected cell, whatever the word."""
    expected = expected_sections(cells.model)

    def distances(_word: str, section: str) -> Distances:
        row = np.array([section_id(cells.model, section)])
        cell = NumpyGaussian(
            expected.mean[row].astype(np.float32), np.log(expected.within[row]).astype(np.float32)
        )
        return far(cell, cells.of(candidates.ids, None), measure=measure)

    return distances


def far(cell: NumpyGaussian, others: NumpyGaussian, *, measure: str) -> Distances:
    """How far each of some cells is from one."""
    if measure == "divergence":
        return kl_divergence(cell, others)
    return -cosine_similarity(cell, others).astype(np.float64)
