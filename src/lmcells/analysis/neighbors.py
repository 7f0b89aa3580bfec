"""The words nearest to a word's cell under a section: what it means there."""

from dataclasses import dataclass

import numpy as np

from lmcells.analysis import Result
from lmcells.analysis.cells import Ids, WordCells, kl_divergence
from lmcells.analysis.names import NULL_SECTION, section_id, section_name, word_id
from lmcells.analysis.statistics import Floats
from lmcells.errors import InputError, nearest
from lmcells.pretrained import NumpyGaussian

AGAINST = ("section", "expected")
MEASURES = ("divergence", "cosine")


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A word near a cell."""

    word: str
    count: int  # in the training text
    divergence: float  # KL(cell || the word's cell), in nats
    cosine: float  # of the two means


@dataclass(frozen=True, slots=True)
class NearestWords(Result):
    """A word's cell, and the words nearest to it."""

    word: str
    section: str | None  # None: expected over the word's sections
    against: str
    measure: str
    count: int  # of the word
    count_in_section: int | None  # None without a section
    variance: float  # of the cell
    moved: float  # KL(cell || the word's expected cell): how far the section moves the word
    n_candidates: int
    neighbors: tuple[Neighbor, ...]


def nearest_words(
    cells: WordCells,
    word: str,
    section: str | None = None,
    *,
    against: str = "section",
    measure: str = "divergence",
    min_count: int | None = None,
    n: int = 10,
) -> NearestWords:
    """Find the words nearest to p(z | word, section), nearest first.

    `section` may be `NULL_SECTION`; None is the word's expected meaning. The candidates' cells are taken under the same
    section, or are expected over each candidate's own sections: the first compares the word with the words of the
    section, the second also shows where the section pulls it.
    """
    for name, value, allowed in (("against", against, AGAINST), ("measure", measure, MEASURES)):
        if value not in allowed:
            raise InputError(
                f"{name} is {value!r}; allowed: {', '.join(allowed)}.{nearest(str(value), allowed)}"
            )
    require_positive(n=n)
    model, id_ = cells.model, word_id(cells.model, word)
    candidates = cells.frequent(min_count, besides=id_)
    cell, average = cells.of(np.array([id_]), section), cells.of(np.array([id_]), None)
    others = cells.of(candidates, section if against == "section" else None)
    return NearestWords(
        word=model.words[id_],
        section=None if section is None else section_name(model, section),
        against=against,
        measure=measure,
        count=int(model.word_counts[id_]),
        count_in_section=count_in_section(cells, id_, section),
        variance=float(np.exp(cell.log_variance[0])),
        moved=float(kl_divergence(cell, average)[0]),
        n_candidates=candidates.size,
        neighbors=rank(cells, cell, candidates, others, measure=measure, n=n),
    )


def rank(
    cells: WordCells,
    cell: NumpyGaussian,
    candidates: Ids,
    others: NumpyGaussian,
    *,
    measure: str = "divergence",
    n: int,
) -> tuple[Neighbor, ...]:
    """The candidates nearest to one cell, nearest first; ties go to the lower id."""
    distance = kl_divergence(cell, others) if measure == "divergence" else -cosine_similarity(cell, others)
    order = np.argsort(distance, kind="stable")[:n]
    near = NumpyGaussian(others.mean[order], others.log_variance[order])
    columns = (candidates[order], kl_divergence(cell, near), cosine_similarity(cell, near))
    words, counts = cells.model.words, cells.model.word_counts
    return tuple(
        Neighbor(words[id_], int(counts[id_]), divergence, cosine)
        for id_, divergence, cosine in zip(*(column.tolist() for column in columns), strict=True)
    )


def cosine_similarity(cell: NumpyGaussian, others: NumpyGaussian) -> Floats:
    """Cosines of the means of one cell and of others: (1,), (n,) -> (n,)."""
    mean = cell.mean[0]
    lengths = np.sqrt(np.einsum("nd,nd->n", others.mean, others.mean)) * np.linalg.norm(mean)
    cosines: Floats = (others.mean @ mean) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return cosines


def count_in_section(cells: WordCells, word: int, section: str | None) -> int | None:
    """How often a word was counted under a section; None without a section."""
    if section is None or section == NULL_SECTION:
        return None
    table = cells.model.statistics
    row = slice(table.offsets[word], table.offsets[word + 1])
    return int(table.counts[row][table.metadata[row] == section_id(cells.model, section)].sum())


def require_positive(**numbers: int) -> None:
    """Refuse to list fewer than one of anything."""
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"{name} is {value}; allowed: 1 or more.")
