"""How far the section moves the cells of a model, and how much of that is the same for every word."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lmcells.analysis.names import require_sections
from lmcells.analysis.sections.embeddings import frequent_sections
from lmcells.analysis.words.cells import WordCells, kl_divergence
from lmcells.pretrained import NumpyGaussian

_N_WORDS, _N_SECTIONS = 600, 60


@dataclass(frozen=True, slots=True)
class Movement:
    """Where the means of p(z | w, m) vary, over frequent words and sections; the three shares add up to one.

    A large `of_sections` beside a small `of_pairs` says that a section pulls all words the same way.
    """

    n_words: int
    n_sections: int
    of_words: float  # share of the variance that is the word's alone
    of_sections: float  # the section's alone, the same for every word
    of_pairs: float  # what a section does to this word and not to the others
    between_sections: float  # median KL of a word's cells under two sections
    between_words: float  # median KL of two words' cells under one section

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def measure_movement(cells: WordCells, *, n_words: int = _N_WORDS, n_sections: int = _N_SECTIONS) -> Movement:
    """Split the variance of the means, word by section, as a two-way analysis of variance does."""
    model = cells.model
    require_sections(model)
    common = cells.frequent()
    words = common[np.argsort(-model.word_counts[common], kind="stable")[:n_words]]
    sections = frequent_sections(model)[:n_sections]
    under = [cells.of(words, model.sections[section]) for section in sections.tolist()]
    grid = NumpyGaussian(
        np.stack([each.mean for each in under], axis=1),
        np.stack([each.log_variance for each in under], axis=1),
    )  # (W, M, d), (W, M)
    means = grid.mean.astype(np.float64)
    center = means.mean(axis=(0, 1))
    by_word, by_section = means.mean(axis=1) - center, means.mean(axis=0) - center  # (W, d), (M, d)
    parts = np.array(
        [
            np.square(by_word).sum() * sections.size,
            np.square(by_section).sum() * words.size,
            np.square(means - center - by_word[:, None] - by_section).sum(),
        ]
    )
    of_words, of_sections, of_pairs = (parts / max(parts.sum(), np.finfo(np.float64).tiny)).tolist()
    return Movement(
        words.size,
        sections.size,
        of_words,
        of_sections,
        of_pairs,
        between_sections=_median_to_next(grid, axis=1),
        between_words=_median_to_next(grid, axis=0),
    )


def _median_to_next(grid: NumpyGaussian, *, axis: int) -> float:
    """The median KL of each cell to the one half way round an axis: pairs enough, and nothing drawn."""
    half = grid.mean.shape[axis] // 2
    others = NumpyGaussian(np.roll(grid.mean, half, axis=axis), np.roll(grid.log_variance, half, axis=axis))
    return float(np.median(kl_divergence(grid, others)))
