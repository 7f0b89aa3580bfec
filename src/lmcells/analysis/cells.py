"""The cells of all words of a model at once: under a section, without one, or expected over a word's own sections."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import metadata_id, require_sections
from lmcells.analysis.statistics import Floats, isotropic_divergence
from lmcells.errors import InputError
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel
from lmcells.pretrained.layers import Ids as AnyIds

# Words and sections as vectors: their expected meaning (the paper's appendix, "Word and Metadata as Vectors").
#
#     E[z | w] = sum_m beta(m | w) mu(w, m)         E[z | m] = sum_w beta(w | m) mu(w, m)
#
# These are the first two moments of all the mixtures of `mixtures.marginals`, in one pass over the counts.


Counts = npt.NDArray[np.int64]

_MAX_PAIRS = 1 << 14  # of a word and a section that are computed in one go


@dataclass(frozen=True, eq=False)
class Expectation:
    """Mean and variance of the mixture of each word, or of each section: a row each."""

    mean: Floats  # (n, d) the expected meaning
    within: Floats  # (n,) expected variance of a component
    between: Floats  # (n,) variance of the components' means, averaged over the dimensions
    n_effective: Floats  # (n,) components: exp(entropy of their weights)
    n_counted: Counts  # (n,) occurrences that the weights were counted on

    @property
    def total_variance(self) -> Floats:
        """The variance of a draw, averaged over the dimensions."""
        return self.within + self.between

    @classmethod
    def of_single_cells(cls, cells: NumpyGaussian, *, n_counted: Counts) -> Self:
        """Rows with one component each."""
        n = cells.mean.shape[0]
        within = np.exp(cells.log_variance.astype(np.float64))
        return cls(cells.mean.astype(np.float64), within, np.zeros(n), np.ones(n), n_counted)


def expected_words(model: PretrainedModel) -> Expectation:
    """The expectation of every word; one whose sections were not counted (n_counted is 0) has null metadata."""
    prior, table = model.prior, model.statistics
    every = np.arange(len(model.words))
    if not isinstance(prior, NumpyModelNetwork):
        return Expectation.of_single_cells(prior(every), n_counted=model.word_counts)
    with_null = Expectation.of_single_cells(prior(every, None), n_counted=np.zeros_like(every))
    words = np.repeat(every, np.diff(table.offsets))
    return _fill(with_null, words, table.metadata, table.counts, cells=prior)


def expected_sections(model: PretrainedModel) -> Expectation:
    """The expectation of every section; one none of whose words were counted (n_counted is 0) is all zeros."""
    require_sections(model)
    prior, table = model.prior, model.statistics
    assert isinstance(prior, NumpyModelNetwork)  # no other model has sections
    n = len(model.sections)
    nothing = Expectation(
        np.zeros((n, model.sizes.cell_dim)), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    )
    words = np.repeat(np.arange(len(model.words)), np.diff(table.offsets))
    order = np.argsort(table.metadata, kind="stable")
    sections, words, counts = table.metadata[order], words[order], table.counts[order]
    return _fill(nothing, sections, words, counts, cells=lambda rows, parts: prior(parts, rows))


def expected_word_vectors(model: PretrainedModel) -> Floats:
    """The expected meaning of every word: (V, d)."""
    return expected_words(model).mean


def expected_section_vectors(model: PretrainedModel) -> Floats:
    """The expected meaning of every section: (M, d)."""
    return expected_sections(model).mean


def _fill(
    start: Expectation,
    rows: AnyIds,
    parts: AnyIds,
    counts: Counts,
    *,
    cells: Callable[[AnyIds, AnyIds], NumpyGaussian],
) -> Expectation:
    """Compute the rows that have pairs, which come row after row; the others stay as they are in `start`."""
    n = start.within.size
    n_counted = np.bincount(rows, weights=counts, minlength=n)
    weights = counts / n_counted[rows]
    is_counted = n_counted > 0
    mean = np.where(is_counted[:, None], 0.0, start.mean)
    within = np.where(is_counted, 0.0, start.within)
    length = np.zeros(n)  # expected |mu|^2
    for first in range(0, rows.size, _MAX_PAIRS):
        pairs = slice(first, first + _MAX_PAIRS)
        weight, here = weights[pairs], cells(rows[pairs], parts[pairs])
        means = here.mean.astype(np.float64)
        begins = np.flatnonzero(np.diff(rows[pairs], prepend=-1))  # a row may go on in the next block
        touched = rows[pairs][begins]
        mean[touched] += np.add.reduceat(weight[:, None] * means, begins)
        within[touched] += np.add.reduceat(weight * np.exp(here.log_variance.astype(np.float64)), begins)
        length[touched] += np.add.reduceat(weight * np.einsum("nd,nd->n", means, means), begins)
    between = np.maximum(length - np.einsum("nd,nd->n", mean, mean), 0) / mean.shape[1]
    surprise = np.bincount(rows, weights=-weights * np.log(weights), minlength=n)
    return Expectation(
        mean,
        within,
        np.where(is_counted, between, start.between),
        np.where(is_counted, np.exp(surprise), start.n_effective),
        n_counted.astype(np.int64),
    )


# The cells of all words of a model at once: under a section, without one, or expected over a word's own sections.


_N_FREQUENT = 10_000  # words that are looked at unless said otherwise


Ids = npt.NDArray[np.int64]


class WordCells:
    """Cells of a model's words, p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE; make one and keep it.

    cells = WordCells(model)
    cells.of(words, "SOCIAL HISTORY")   # one Gaussian a word, under a section
    cells.of(words, NULL_SECTION)       # null metadata
    cells.of(words, None)               # expected over the sections in which each word was seen
    """

    def __init__(self, model: PretrainedModel) -> None:
        self.model = model

    def of(self, words: Ids, section: str | None) -> NumpyGaussian:
        """The cells of some words: (n,) -> n Gaussians."""
        if section is None:
            return NumpyGaussian(self.expected.mean[words], self.expected.log_variance[words])
        metadata, prior = metadata_id(self.model, section), self.model.prior
        return prior(words, np.asarray(metadata)) if isinstance(prior, NumpyModelNetwork) else prior(words)

    @cached_property
    def expected(self) -> NumpyGaussian:
        """The expected meaning of each word: its mean, and the expected variance of its cells; computed once."""
        moments = expected_words(self.model)
        return NumpyGaussian(moments.mean.astype(np.float32), np.log(moments.within).astype(np.float32))

    def frequent(self, min_count: int | None = None, *, besides: int | None = None) -> Ids:
        """Words seen often enough to be looked at, without placeholders, nor the word that others are held against.

        Unless said otherwise about the 10,000 commonest.
        """
        counts = self.model.word_counts
        if min_count is None:
            min_count = int(np.sort(counts)[-min(_N_FREQUENT, counts.size)])
        often: Ids = np.flatnonzero((counts >= min_count) & self._is_word)
        often = often if besides is None else often[often != besides]
        if not often.size:
            raise InputError(
                f"no {'' if besides is None else 'other '}word was seen at least {min_count:,} times. "
                "Lower the minimum count (--min-count)."
            )
        return often

    @cached_property
    def _is_word(self) -> npt.NDArray[np.bool_]:
        return np.array([not word.startswith("<") for word in self.model.words], np.bool_)


def kl_divergence(q: NumpyGaussian, p: NumpyGaussian) -> Floats:
    """KL(q || p) of cells in nats; leading axes broadcast."""
    offset = q.mean - p.mean  # (..., d)
    return isotropic_divergence(
        np.einsum("...d,...d->...", offset, offset),
        log_variance=q.log_variance,
        other_log_variance=p.log_variance,
        dim=offset.shape[-1],
    )
