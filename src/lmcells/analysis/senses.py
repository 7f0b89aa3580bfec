"""The words nearest to a word's cell, and how they change with the section: how its meaning moves."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from lmcells.analysis import Row, rows_of
from lmcells.analysis.cells import Ids, WordCells, kl_divergence
from lmcells.analysis.names import NULL_SECTION, require_sections, section_id, section_name, word_id
from lmcells.analysis.sections import frequent_sections
from lmcells.analysis.statistics import Floats, log_softmax
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError
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


def word_senses(
    cells: WordCells,
    word: str,
    *,
    sections: Sequence[str] = (),
    words: Sequence[str] = (),
    min_count: int | None = None,
    n_sections: int = 6,
    n_words: int = 12,
    n_neighbors: int = 5,
) -> Row:
    """Compare p(z | word, section) with the expected cells of other words, for each section and on `average`.

    Without sections: those in which the word was seen most. Without words: for each section in turn the frequent words
    that best distinguish it from the other sections. `min_count` says which words are frequent.
    """
    model = cells.model
    require_sections(model)
    id_ = word_id(model, word)
    names = [section_name(model, each) for each in sections] or sections_of(cells, id_)[:n_sections]
    names = list(dict.fromkeys(names))
    under = [cells.of(np.array([id_]), name) for name in (*names, None)]  # the average comes last
    frequent = cells.frequent(min_count, besides=id_)
    expected = cells.of(frequent, None)
    if words:
        listed = np.array(list(dict.fromkeys(word_id(model, each) for each in words)), np.int64)
    else:
        to_frequent = np.stack([kl_divergence(cell, expected) for cell in under[:-1]])  # (S, V)
        listed = frequent[_distinguishing(to_frequent, n=min(n_words, frequent.size))]
    listed_words, listed_cells = [model.words[other] for other in listed.tolist()], cells.of(listed, None)
    divergences = np.stack([kl_divergence(cell, listed_cells) for cell in under])  # (S + 1, W)
    logits = log_softmax(-divergences)
    senses = []
    for row, (name, cell) in enumerate(zip([*names, None], under, strict=True)):
        senses.append(
            Row(
                section=name,
                count=count_in_section(cells, id_, name),
                variance=float(np.exp(cell.log_variance[0])),
                moved=float(kl_divergence(cell, under[-1])[0]),
                likenesses=rows_of(
                    word=listed_words,
                    divergence=divergences[row],  # KL(p(z | word, section) || the other word's expected cell)
                    probability=np.exp(logits[row]),  # softmax of the negative divergences
                    ratio=np.exp(logits[row] - logits[-1]),  # to the average's; above 1: pulled here
                ),
                neighbors=rank(cells, cell, frequent, expected, n=n_neighbors),
            )
        )
    found = Row(word=model.words[id_], count=int(model.word_counts[id_]), words=tuple(listed_words))
    return Row(found, sections=tuple(senses[:-1]), average=senses[-1])


def sections_of(cells: WordCells, word: int) -> list[str]:
    """The headers under which a word was seen, most often first."""
    model = cells.model
    row = slice(model.statistics.offsets[word], model.statistics.offsets[word + 1])
    order = np.argsort(-model.statistics.counts[row], kind="stable")
    names = (model.sections[id_] for id_ in model.statistics.metadata[row][order].tolist())
    found = [name for name in names if name not in (NO_SECTION, OTHER)]
    if not found:
        raise InputError(
            f"{model.words[word]!r} was not counted under any section often enough. Name the sections to look at."
        )
    return found


def _distinguishing(divergence: Floats, *, n: int) -> Ids:
    """The n words that best distinguish the sections, section by section: (S, V) -> (n,).

    With p_s the softmax of -KL over all words, a word's share of the Jensen-Shannon divergence between the sections is
    p_s log(p_s / mean p): large where it is near the cell under s and not under the others. A word goes to the
    section where its share is largest, and the sections take turns.
    """
    logs = log_softmax(-divergence)  # (S, V)
    if len(logs) == 1:
        return np.argsort(-logs[0], kind="stable")[:n]
    share = np.exp(logs) * (logs - np.log(np.exp(logs).mean(axis=0)))
    best = share.argmax(axis=0)  # (V,)
    turns: list[tuple[int, int, int]] = []  # turn, section, word
    for row in range(len(logs)):
        own = np.flatnonzero(best == row)
        own = own[np.argsort(-share[row, own], kind="stable")]
        turns += [(turn, row, id_) for turn, id_ in enumerate(own.tolist())]
    chosen = sorted(sorted(turns)[:n], key=lambda each: each[1])
    return np.array([id_ for _, _, id_ in chosen], np.int64)


_N_WORDS, _N_SECTIONS = 600, 60


def measure_movement(cells: WordCells) -> Row:
    """What makes the means of p(z | w, m) vary, over frequent words and sections: a two-way analysis of variance.

    `of_words` and `of_sections` are the shares of the variance that are the word's or the section's alone; `of_pairs`
    is what a section does to this word and not to the others. `between_sections` is the median KL of a word's cells
    under two sections, `between_words` that of two words' cells under one section.
    """
    model = cells.model
    require_sections(model)
    frequent = cells.frequent()
    words = frequent[np.argsort(-model.word_counts[frequent], kind="stable")[:_N_WORDS]]
    sections = frequent_sections(model)[:_N_SECTIONS]
    under = [cells.of(words, model.sections[section]) for section in sections.tolist()]
    grid = NumpyGaussian(
        np.stack([each.mean for each in under], axis=1),
        np.stack([each.log_variance for each in under], axis=1),
    )  # (W, M, d), (W, M)
    means = grid.mean.astype(np.float64)
    center = means.mean(axis=(0, 1))
    by_word, by_section = means.mean(axis=1) - center, means.mean(axis=0) - center  # (W, d), (M, d)
    of_pairs = np.square(means - center - by_word[:, None] - by_section).sum()
    alone = np.square(by_word).sum() * sections.size, np.square(by_section).sum() * words.size
    parts = np.array([*alone, of_pairs])
    of_words, of_sections, of_pairs = (parts / max(parts.sum(), np.finfo(np.float64).tiny)).tolist()
    return Row(
        n_words=words.size,
        n_sections=sections.size,
        of_words=of_words,
        of_sections=of_sections,
        of_pairs=of_pairs,
        between_sections=_median_to_next(grid, axis=1),
        between_words=_median_to_next(grid, axis=0),
    )


def _median_to_next(grid: NumpyGaussian, *, axis: int) -> float:
    """The median KL of each cell to the one half way round an axis: enough pairs, and no random draws."""
    half = grid.mean.shape[axis] // 2
    others = NumpyGaussian(np.roll(grid.mean, half, axis=axis), np.roll(grid.log_variance, half, axis=axis))
    return float(np.median(kl_divergence(grid, others)))
