"""The words nearest to a word's cell under a section: what it means there."""

from typing import Literal, get_args

import numpy as np

from lmcells.analysis import Row, rows_of
from lmcells.analysis.cells import Ids, WordCells, kl_divergence
from lmcells.analysis.names import NULL_SECTION, section_id, section_name, word_id
from lmcells.analysis.statistics import Floats
from lmcells.pretrained import NumpyGaussian

Against = Literal["section", "expected"]
Measure = Literal["divergence", "cosine"]
AGAINST, MEASURES = get_args(Against), get_args(Measure)


def nearest_words(
    cells: WordCells,
    word: str,
    section: str | None = None,
    *,
    against: Against = "section",
    measure: Measure = "divergence",
    min_count: int | None = None,
    n: int = 10,
) -> Row:
    """Find the words nearest to p(z | word, section): its cell, and `neighbors`, nearest first.

    `section` may be `NULL_SECTION`; None is the word's expected meaning. The candidates' cells are taken under the same
    section, or are expected over each candidate's own sections: the first compares the word with the words of the
    section, the second also shows where the section pulls it. `moved` is KL(cell || the word's expected cell): how far
    the section moves the word.
    """
    model, id_ = cells.model, word_id(cells.model, word)
    candidates = cells.frequent(min_count, besides=id_)
    cell, average = cells.of(np.array([id_]), section), cells.of(np.array([id_]), None)
    others = cells.of(candidates, section if against == "section" else None)
    return Row(
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
    measure: Measure = "divergence",
    n: int,
) -> tuple[Row, ...]:
    """The candidates nearest to one cell, nearest first, with KL(cell || the word's cell) in nats; ties: lower id."""
    distance = kl_divergence(cell, others) if measure == "divergence" else -cosine_similarity(cell, others)
    order = np.argsort(distance, kind="stable")[:n]
    near = NumpyGaussian(others.mean[order], others.log_variance[order])
    words = [cells.model.words[id_] for id_ in candidates[order].tolist()]
    counts = cells.model.word_counts[candidates[order]]
    divergences, cosines = kl_divergence(cell, near), cosine_similarity(cell, near)
    return rows_of(word=words, count=counts, divergence=divergences, cosine=cosines)


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
