"""A word's cell under different sections, against other words: how its meaning moves with the section."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lmcells.analysis.cells import Ids, WordCells, kl_divergence
from lmcells.analysis.names import require_sections, section_name, word_id
from lmcells.analysis.neighbors import Neighbor, count_in_section, rank, require_positive
from lmcells.analysis.sections import frequent_sections
from lmcells.analysis.statistics import Floats, log_softmax
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError
from lmcells.pretrained import NumpyGaussian

# How far the section moves the cells of a model, and how much of that is the same for every word.


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


# A word's cell under different sections, against other words: how its meaning moves with the section.


@dataclass(frozen=True, slots=True)
class Likeness:
    """How near a word's cell is to another word."""

    word: str
    divergence: float  # KL(p(z | word, section) || the other word's expected cell), in nats
    probability: float  # softmax of the negative divergences over the listed words
    ratio: float  # of that probability to the one that the word's expected cell has: above 1, the section pulls here


@dataclass(frozen=True, slots=True)
class SectionSense:
    """What a word means under one section."""

    section: str | None
    count: int | None  # how often the word was counted there
    variance: float
    moved: float  # KL(p(z | word, section) || the word's expected cell)
    likenesses: tuple[Likeness, ...]  # one a listed word, in the order of the list
    neighbors: tuple[Neighbor, ...]  # among all frequent words, by their expected cells


@dataclass(frozen=True, slots=True)
class WordSenses:
    """What a word means under some sections, and on average."""

    word: str
    count: int
    words: tuple[str, ...]  # the list it is held against
    sections: tuple[SectionSense, ...]
    average: SectionSense  # the word's expected cell

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


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
) -> WordSenses:
    """Hold p(z | word, section) against the expected cells of other words, for each section.

    Without sections: those in which the word was seen most. Without words: for each section in turn the frequent words
    that tell it best from the other sections. `min_count` says which words are frequent.
    """
    require_sections(cells.model)
    for name, value in (("n_sections", n_sections), ("n_words", n_words), ("n_neighbors", n_neighbors)):
        require_positive(value, name=name)
    id_ = word_id(cells.model, word)
    names = [section_name(cells.model, each) for each in sections] or sections_of(cells, id_)[:n_sections]
    names = list(dict.fromkeys(names))
    of_sections = [cells.of(np.array([id_]), name) for name in (*names, None)]
    under = _stacked(of_sections)  # (S + 1,), the average last
    frequent = cells.frequent(min_count, besides=id_)
    expected = cells.of(frequent, None)
    if words:
        listed = np.array(list(dict.fromkeys(word_id(cells.model, each) for each in words)), np.int64)
    else:
        listed = frequent[_telling(_divergences(under, expected)[:-1], n=min(n_words, frequent.size))]
    divergences = _divergences(under, cells.of(listed, None))  # (S + 1, W)
    logits = log_softmax(-divergences)
    senses = [
        SectionSense(
            section=name,
            count=count_in_section(cells, id_, name),
            variance=float(np.exp(under.log_variance[row])),
            moved=float(kl_divergence(_row(under, row), _row(under, -1))),
            likenesses=tuple(
                Likeness(cells.model.words[other], *map(float, values))
                for other, *values in zip(
                    listed.tolist(),
                    divergences[row],
                    np.exp(logits[row]),
                    np.exp(logits[row] - logits[-1]),
                    strict=True,
                )
            ),
            neighbors=rank(cells, _row(under, slice(row, row + 1)), frequent, expected, n=n_neighbors),
        )
        for row, name in enumerate([*names, None])
    ]
    return WordSenses(
        word=cells.model.words[id_],
        count=int(cells.model.word_counts[id_]),
        words=tuple(cells.model.words[other] for other in listed.tolist()),
        sections=tuple(senses[:-1]),
        average=senses[-1],
    )


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


def _telling(divergence: Floats, *, n: int) -> Ids:
    """The n words that tell the sections apart, section by section: (S, V) -> (n,).

    With p_s the softmax of -KL over all words, a word's share of the Jensen-Shannon divergence between the sections is
    p_s log(p_s / mean p): large where it is near to the cell under s and not under the others. Words are given to the
    section where their share is greatest, and the sections take turns.
    """
    logs = log_softmax(-divergence)  # (S, V)
    if len(logs) == 1:
        return np.argsort(-logs[0], kind="stable")[:n]
    share = np.exp(logs) * (logs - np.log(np.exp(logs).mean(axis=0)))
    best = share.argmax(axis=0)  # (V,)
    queues = []
    for row in range(len(logs)):
        own = np.flatnonzero(best == row)
        queues.append(own[np.argsort(-share[row, own], kind="stable")].tolist())
    chosen: list[list[int]] = [[] for _ in queues]
    while sum(map(len, chosen)) < n:
        for queue, taken in zip(queues, chosen, strict=True):
            if queue and sum(map(len, chosen)) < n:
                taken.append(queue.pop(0))
    return np.array([id_ for taken in chosen for id_ in taken], np.int64)


def _divergences(each: NumpyGaussian, others: NumpyGaussian) -> Floats:
    """KL of each cell to each other: (S,), (W,) -> (S, W)."""
    return np.stack([kl_divergence(_row(each, row), others) for row in range(len(each.mean))])


def _row(cells: NumpyGaussian, row: int | slice) -> NumpyGaussian:
    return NumpyGaussian(cells.mean[row], cells.log_variance[row])


def _stacked(each: Sequence[NumpyGaussian]) -> NumpyGaussian:
    return NumpyGaussian(
        np.concatenate([cell.mean for cell in each]), np.concatenate([cell.log_variance for cell in each])
    )
