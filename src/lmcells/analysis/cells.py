"""The cells of all words of a model: under a section, without one, or expected over a word's own sections.

Expected meanings can be written as a file of vectors that word2vec, gensim, fastText and others read. There a space
ends a name, so spaces become underscores: `PAST_MEDICAL_HISTORY`. Where that makes two names the same, the later one
gets a number: `A_B`, `A_B_2`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import NULL_SECTION, require_sections, section_id
from lmcells.analysis.statistics import Floats, isotropic_divergence
from lmcells.errors import InputError
from lmcells.expansion.windows import NULL
from lmcells.files import atomic_write, explain_unwritable
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel
from lmcells.pretrained.layers import Ids as AnyIds

Ids = npt.NDArray[np.int64]

FORMATS = {".txt": "text", ".vec": "text", ".bin": "binary"}  # by extension, as in word2vec and fastText

_N_FREQUENT = 10_000  # words that are searched by default
_MAX_PAIRS = 1 << 14  # of a word and a section, computed at once


@dataclass(frozen=True, eq=False)
class Expectation:
    """The first two moments of the mixtures of all words, or of all sections: one row each.

    The expected meaning (the paper's appendix, "Word and Metadata as Vectors") is the mean:

        E[z | w] = sum_m beta(m | w) mu(w, m)         E[z | m] = sum_w beta(w | m) mu(w, m)
    """

    mean: Floats  # (n, d)
    within: Floats  # (n,) expected variance of a component
    between: Floats  # (n,) variance of the components' means, averaged over the dimensions
    n_effective: Floats  # (n,) components: exp(entropy of their weights)
    n_counted: Ids  # (n,) occurrences that the weights were counted on


def expected_words(model: PretrainedModel) -> Expectation:
    """The expectation of every word; one whose sections were not counted (n_counted is 0) has null metadata."""
    prior, table = model.prior, model.statistics
    every = np.arange(len(model.words))
    if not isinstance(prior, NumpyModelNetwork):
        cells = prior(every)
        mean, within = cells.mean.astype(np.float64), np.exp(cells.log_variance.astype(np.float64))
        return Expectation(mean, within, np.zeros(every.size), np.ones(every.size), model.word_counts)
    n_sections = np.diff(table.offsets)
    uncounted = every[n_sections == 0]
    words = np.concatenate([np.repeat(every, n_sections), uncounted])
    sections = np.concatenate([table.metadata, np.full(uncounted.size, NULL)])
    counts = np.concatenate([table.counts, np.zeros_like(uncounted)])
    return _moments(words, sections, counts, cells=prior, shape=(every.size, model.sizes.cell_dim))


def expected_sections(model: PretrainedModel) -> Expectation:
    """The expectation of every section; all zeros for a section without counted words (n_counted is 0)."""
    require_sections(model)
    prior, table = model.prior, model.statistics
    words = np.repeat(np.arange(len(model.words)), np.diff(table.offsets))
    order = np.argsort(table.metadata, kind="stable")
    sections, words, counts = table.metadata[order], words[order], table.counts[order]
    shape = (len(model.sections), model.sizes.cell_dim)
    return _moments(sections, words, counts, cells=lambda rows, parts: prior(parts, rows), shape=shape)


def expected_word_vectors(model: PretrainedModel) -> Floats:
    """The expected meaning of every word: (V, d)."""
    return expected_words(model).mean


def _moments(
    rows: AnyIds,
    parts: AnyIds,
    counts: Ids,
    *,
    cells: Callable[[AnyIds, AnyIds], NumpyGaussian],
    shape: tuple[int, int],
) -> Expectation:
    """Moments of n mixtures, from pairs of a row and a part with their counts; the pairs of a row are contiguous."""
    n, dim = shape
    n_counted = np.bincount(rows, weights=counts, minlength=n)
    weights = np.where(n_counted[rows] > 0, counts / np.maximum(n_counted[rows], 1), 1.0)
    mean, within, length = np.zeros(shape), np.zeros(n), np.zeros(n)  # length is E |mu|^2
    for first in range(0, rows.size, _MAX_PAIRS):
        pairs = slice(first, first + _MAX_PAIRS)
        weight, here = weights[pairs], cells(rows[pairs], parts[pairs])
        means = here.mean.astype(np.float64)
        begins = np.flatnonzero(np.diff(rows[pairs], prepend=-1))  # a row may continue in the next block
        touched = rows[pairs][begins]
        mean[touched] += np.add.reduceat(weight[:, None] * means, begins)
        within[touched] += np.add.reduceat(weight * np.exp(here.log_variance.astype(np.float64)), begins)
        length[touched] += np.add.reduceat(weight * np.einsum("nd,nd->n", means, means), begins)
    between = np.maximum(length - np.einsum("nd,nd->n", mean, mean), 0) / dim
    surprise = np.bincount(rows, weights=-weights * np.log(weights), minlength=n)
    return Expectation(mean, within, between, np.exp(surprise), n_counted.astype(np.int64))


class WordCells:
    """Cells of a model's words: p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE. Create one and keep it.

    cells = WordCells(model)
    cells.of(words, "SOCIAL HISTORY")   # one Gaussian per word, under a section
    cells.of(words, NULL_SECTION)       # null metadata
    cells.of(words, None)               # expected over the sections in which each word was seen
    """

    def __init__(self, model: PretrainedModel) -> None:
        self.model = model

    def of(self, words: Ids, section: str | None) -> NumpyGaussian:
        if section is None:
            return NumpyGaussian(self.expected.mean[words], self.expected.log_variance[words])
        id_ = NULL if section == NULL_SECTION else section_id(self.model, section)
        return self.model.prior(words, np.asarray(id_))

    @cached_property
    def expected(self) -> NumpyGaussian:
        """The expected mean and the expected variance of each word's cells."""
        moments = expected_words(self.model)
        return NumpyGaussian(moments.mean.astype(np.float32), np.log(moments.within).astype(np.float32))

    def frequent(self, min_count: int | None = None, *, besides: int | None = None) -> Ids:
        """Words seen `min_count` times or more (about 10,000 by default), less placeholders and the word `besides`."""
        counts = self.model.word_counts
        if min_count is None:
            min_count = int(np.sort(counts)[-min(_N_FREQUENT, counts.size)])
        frequent, words = np.flatnonzero(counts >= min_count).tolist(), self.model.words
        found = [id_ for id_ in frequent if id_ != besides and not words[id_].startswith("<")]
        if not found:
            what = f"no {'' if besides is None else 'other '}word was seen at least {min_count:,} times"
            raise InputError(f"{what}. Lower the minimum count (--min-count).")
        return np.array(found, np.int64)


def kl_divergence(q: NumpyGaussian, p: NumpyGaussian) -> Floats:
    """KL(q || p) of cells in nats; leading axes broadcast."""
    offset = q.mean - p.mean  # (..., d)
    return isotropic_divergence(
        np.einsum("...d,...d->...", offset, offset),
        log_variance=q.log_variance,
        other_log_variance=p.log_variance,
        dim=offset.shape[-1],
    )


# Unique names without white space, and a vector each (n, d); in the model's order, frequent ones first.
NamedVectors = tuple[tuple[str, ...], npt.NDArray[np.float32]]


def word_vectors(model: PretrainedModel) -> NamedVectors:
    return unique_names(model.words), expected_words(model).mean.astype(np.float32)


def section_vectors(model: PretrainedModel) -> NamedVectors:
    """The expected meaning of every section with counted words."""
    expected = expected_sections(model)
    kept = np.flatnonzero(expected.n_counted)
    names = unique_names([model.sections[section] for section in kept.tolist()])
    return names, expected.mean[kept].astype(np.float32)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the files of vectors can hold them; see the module."""
    plain = [re.sub(r"\s", "_", name) or "_" for name in names]
    given, taken = set(plain), dict[str, None]()
    for name in plain:
        unique, number = name, 1
        while unique in taken or (number > 1 and unique in given):  # a number must not make another's name
            number += 1
            unique = f"{name}_{number}"
        taken[unique] = None
    return tuple(taken)


def write_vectors(path: Path, named: NamedVectors) -> None:
    """Write a file of vectors row by row, in the format of its extension."""
    is_binary = require_format(path) == "binary"
    names, vectors = named
    n, dim = vectors.shape
    text = " %.9g" * dim + "\n"  # nine digits preserve every float32
    rows = zip(names, np.ascontiguousarray(vectors, dtype="<f4"), strict=True)
    with explain_unwritable(path), atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(f"{n} {dim}\n".encode())
        for name, row in rows:
            vector = b" " + row.tobytes() + b"\n" if is_binary else (text % tuple(row.tolist())).encode()
            file.write(name.encode() + vector)


def require_format(path: Path) -> str:
    """The format that a file's extension means; other extensions are refused."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: found the extension {path.suffix!r}, allowed: {', '.join(FORMATS)}.")
    return FORMATS[suffix]
