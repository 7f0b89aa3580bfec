"""Words, phrases and sections as mixtures of cells (the paper's appendix, "Words and Metadata as Mixtures").

    p(z | w) = sum_m beta(m | w) p(z | w, m)      a word: one component for each section that it was seen in
    p(z | m) = sum_w beta(w | m) p(z | w, m)      a section: one component for each word that was seen in it

The weights are unsmoothed counts of the training text (smoothing would drown rare words). A packed model keeps only the
larger counts, so `n_counted` says how many occurrences the weights were counted on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row, rows_of
from lmcells.analysis.gaussian_mixture import (
    N_SAMPLES,
    GaussianMixture,
    convex_bound,
    entropy,
    information,
    matched_bound,
    sampled_divergences,
    variational_approximation,
)
from lmcells.analysis.names import NULL_SECTION, section_id, word_id
from lmcells.analysis.statistics import Floats, principal_plane
from lmcells.errors import InputError
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel

MOST_WORDS = 2_000  # of a section; the rest weighs little and costs much


@dataclass(frozen=True, eq=False)
class Marginal:
    """The mixture of a word, a phrase or a section, with the names of its components, heaviest first."""

    name: str
    parts: tuple[str, ...]  # sections of a word, words of a section
    mixture: GaussianMixture
    covered: float  # weight of these parts among all
    n_counted: int  # occurrences that the weights were counted on
    n_seen: int | None = None  # all occurrences of a word

    def to_dict(self) -> dict[str, Any]:
        mixture = self.mixture
        return {
            "name": self.name,
            "n_components": len(mixture),
            "n_counted": self.n_counted,
            "n_seen": self.n_seen,
            "covered": self.covered,
            "n_effective": mixture.n_effective,
            "mean": mixture.mean.tolist(),
            "variance": {
                "within": mixture.within,
                "between": mixture.between,
                "total": mixture.total_variance,
            },
            "components": list(rows_of(name=self.parts, weight=mixture.weights, variance=mixture.variances)),
        }


def word_mixture(model: PretrainedModel, word: str, *, most: int | None = None) -> Marginal:
    """p(z | w). A word whose sections were not counted has one component: null metadata."""
    id_ = word_id(model, word)
    marginal = _of_words(model, model.words[id_], [id_], most)
    return replace(marginal, n_seen=int(model.word_counts[id_]))


def phrase_mixture(model: PretrainedModel, phrase: str) -> Marginal:
    """The mixture of a word or a phrase: a phrase has the mean of its words' vectors, and the mean of their betas."""
    words = [token.word for token in iterate_tokens(phrase, stop_words=model.reads_stop_words)]
    if phrase in model.word_ids or len(words) < 2:
        return word_mixture(model, phrase)
    return _of_words(model, " ".join(words), [word_id(model, word) for word in words])


def section_mixture(model: PretrainedModel, section: str, *, most: int | None = MOST_WORDS) -> Marginal:
    """p(z | m), over the `most` likely words of the section."""
    id_ = section_id(model, section)
    statistics = model.statistics
    n_counted = int(statistics.counts[statistics.metadata == id_].sum())
    if not n_counted:
        advice = "Choose a section with more text."
        raise InputError(f"the model kept no counts of the words under {model.sections[id_]!r}. {advice}")
    weights = statistics.word_given_metadata(id_, add=0)
    kept = _heaviest(weights, most)
    cells = model.prior(kept, np.full(kept.size, id_))
    names = [model.words[word] for word in kept.tolist()]
    return _marginal(model.sections[id_], names, weights[kept], cells, n_counted=n_counted)


def _of_words(model: PretrainedModel, name: str, words: Sequence[int], most: int | None = None) -> Marginal:
    prior, statistics, ids = model.prior, model.statistics, np.array(words)
    if not isinstance(prior, NumpyModelNetwork):
        cell = prior.phrase(ids)
        one = NumpyGaussian(cell.mean[None], np.atleast_1d(cell.log_variance))
        return _marginal(name, [NULL_SECTION], np.ones(1), one, n_counted=int(model.word_counts[ids].min()))
    row_of = {word: slice(statistics.offsets[word], statistics.offsets[word + 1]) for word in words}
    n_counted = {word: n for word, row in row_of.items() if (n := int(statistics.counts[row].sum()))}
    vector = prior.phrase(ids)[None]  # (1, E)
    if not n_counted:
        return _marginal(name, [NULL_SECTION], np.ones(1), prior.of_vectors(vector, None), n_counted=0)
    weights = np.mean([statistics.metadata_given_word(word, add=0) for word in n_counted], axis=0)  # (M,)
    kept = _heaviest(weights, most)
    names = [model.sections[section] for section in kept.tolist()]
    cells = prior.of_vectors(vector, kept)
    return _marginal(name, names, weights[kept], cells, n_counted=min(n_counted.values()))


def _heaviest(weights: Floats, most: int | None) -> npt.NDArray[np.intp]:
    return np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)][:most]


def _marginal(
    name: str, parts: Sequence[str], weights: Floats, cells: NumpyGaussian, *, n_counted: int
) -> Marginal:
    covered = float(weights.sum())
    variances: Floats = np.exp(cells.log_variance.astype(np.float64))
    mixture = GaussianMixture(weights / covered, cells.mean.astype(np.float64), variances)
    return Marginal(name, tuple(parts), mixture, covered, n_counted)


_APPROXIMATIONS = {"matched": matched_bound, "variational": variational_approximation, "convex": convex_bound}


def compare(marginals: Sequence[Marginal], *, n_samples: int = N_SAMPLES, seed: int = 0) -> Row:
    """Measure each marginal alone, and KL of each to each other, in nats; plain data.

    `information` is what a meaning tells about the part that it came from, `n_distinct` the number of parts that can be
    told apart by it.
    """
    random = np.random.default_rng(seed)
    measured, divergences = [], []
    for number, marginal in enumerate(marginals):
        p, others = marginal.mixture, [*marginals[:number], *marginals[number + 1 :]]
        told = information(p, n_samples=n_samples, random=seed)
        of_draws = {"entropy": entropy(p, told)._asdict(), "information": told._asdict()}
        measured.append(Row(marginal.to_dict(), n_distinct=float(np.exp(told.value)), **of_draws))
        drawn = sampled_divergences(p, [q.mixture for q in others], n_samples=n_samples, random=random)
        for q, sampled in zip(others, drawn, strict=True):
            by_name = {name: measure(p, q.mixture) for name, measure in _APPROXIMATIONS.items()}
            names = {"from": marginal.name, "to": q.name}
            divergences.append(Row(names, sampled=sampled._asdict(), **by_name))
    return Row(marginals=measured, divergences=divergences)


class MixturePlane(NamedTuple):
    """The heaviest components of some marginals, and their expected meanings, along two principal axes."""

    components: tuple[Floats, ...]  # one (n, 2) for each marginal
    expected: Floats  # (n_marginals, 2)
    share: float  # of the squared distances from the center that the plane shows


def mixture_plane(marginals: Sequence[Marginal], *, most: int) -> MixturePlane:
    """Lay the `most` heaviest components of each marginal out on one plane."""
    shown = [marginal.mixture.means[:most] for marginal in marginals]
    points = np.vstack([*shown, *(marginal.mixture.mean for marginal in marginals)])
    plane = principal_plane(points)
    spread = float(np.square(points - points.mean(axis=0)).sum())
    *components, expected = np.split(plane, np.cumsum([len(means) for means in shown]))
    share = float(np.square(plane).sum()) / spread if spread else 1.0
    return MixturePlane(tuple(components), expected, share)
