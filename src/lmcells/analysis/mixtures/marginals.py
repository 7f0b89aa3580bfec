"""Words, phrases and sections as mixtures (the paper's appendix, "Words and Metadata as Mixtures").

    p(z | w) = sum_m beta(m | w) p(z | w, m)      a word: one component a section that it was seen in
    p(z | m) = sum_w beta(w | m) p(z | w, m)      a section: one component a word that was seen in it

The weights are counts of the training text, and not smoothed unless `add` says so: smoothing drowns rare words. A model
that was packed keeps only the larger counts, so `n_counted` says how many occurrences the weights rest on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.mixtures.divergence import (
    N_SAMPLES,
    Divergence,
    MonteCarlo,
    divergences,
    entropy,
    information,
)
from lmcells.analysis.mixtures.mixture import GaussianMixture, heaviest_first
from lmcells.analysis.names import NULL_SECTION, section_id, word_id
from lmcells.analysis.statistics.distances import Floats
from lmcells.errors import InputError
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel

MOST_WORDS = 2_000  # of a section; the rest weighs little and costs much


@dataclass(frozen=True, eq=False)
class Marginal:
    """The mixture of a word, a phrase or a section, with the names of its components, heaviest first."""

    name: str
    parts: tuple[str, ...]  # of a word its sections, of a section its words
    mixture: GaussianMixture
    covered: float  # weight of these parts among all
    n_counted: int  # occurrences that the weights were counted on
    n_seen: int | None = None  # all occurrences, of a word

    def to_dict(self, *, most: int | None = None) -> dict[str, Any]:
        """As plain data; `most` limits the components that are listed."""
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
            "components": [
                {"name": name, "weight": weight, "variance": variance}
                for name, weight, variance in zip(
                    self.parts[:most], mixture.weights.tolist(), mixture.variances.tolist(), strict=False
                )
            ],
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Some marginals, how spread out each is, and the divergences between all of them; in nats."""

    marginals: tuple[Marginal, ...]
    entropies: tuple[MonteCarlo, ...]  # one a marginal
    information: tuple[MonteCarlo, ...]  # what a meaning tells about the part that it came from
    divergences: dict[tuple[int, int], Divergence]  # by places in `marginals`, both ways

    @property
    def n_distinct(self) -> tuple[float, ...]:
        """As how many parts that lie wholly apart each marginal's parts can be told apart by their meaning."""
        return tuple(float(np.exp(each.value)) for each in self.information)

    def to_dict(self, *, most: int | None = None) -> dict[str, Any]:
        """As plain data; `most` limits the components that are listed."""
        return {
            "marginals": [
                {
                    **marginal.to_dict(most=most),
                    "n_distinct": n_distinct,
                    "entropy": entropy.to_dict(),
                    "information": information.to_dict(),
                }
                for marginal, n_distinct, entropy, information in zip(
                    self.marginals, self.n_distinct, self.entropies, self.information, strict=True
                )
            ],
            "divergences": [
                {"from": self.marginals[p].name, "to": self.marginals[q].name, **divergence.to_dict()}
                for (p, q), divergence in self.divergences.items()
            ],
        }


def compare(marginals: Sequence[Marginal], *, n_samples: int = N_SAMPLES, seed: int = 0) -> Comparison:
    """Look at each marginal alone, and at KL of each to each other."""
    mixtures = [marginal.mixture for marginal in marginals]
    return Comparison(
        tuple(marginals),
        tuple(entropy(mixture, n_samples=n_samples, random=seed) for mixture in mixtures),
        tuple(information(mixture, n_samples=n_samples, random=seed) for mixture in mixtures),
        divergences(mixtures, n_samples=n_samples, random=seed),
    )


def word_mixture(model: PretrainedModel, word: str, *, add: float = 0.0, most: int | None = None) -> Marginal:
    """p(z | w). A word whose sections were not counted has one component: null metadata."""
    id_ = word_id(model, word)
    marginal = _of_words(model, model.words[id_], [id_], add=add, most=most)
    return replace(marginal, n_seen=int(model.word_counts[id_]))


def phrase_mixture(
    model: PretrainedModel, phrase: str, *, add: float = 0.0, most: int | None = None
) -> Marginal:
    """The same for a word or a phrase: a phrase is the mean of its words' vectors, its beta the mean of theirs."""
    if phrase in model.word_ids:
        return word_mixture(model, phrase, add=add, most=most)
    words = [token.word for token in iterate_tokens(phrase, stop_words=model.reads_stop_words)]
    if len(words) < 2:
        return word_mixture(model, phrase, add=add, most=most)
    ids = [word_id(model, word) for word in words]
    return _of_words(model, " ".join(words), ids, add=add, most=most)


def section_mixture(
    model: PretrainedModel, section: str, *, add: float = 0.0, most: int | None = MOST_WORDS
) -> Marginal:
    """p(z | m), over the `most` likely words of the section."""
    id_ = section_id(model, section)
    statistics = model.statistics
    n_counted = int(statistics.counts[statistics.metadata == id_].sum())
    if not n_counted and not add:
        raise InputError(
            f"the model kept no counts of the words under {model.sections[id_]!r}. "
            "Choose a section with more text, or smooth the counts."
        )
    weights = statistics.word_given_metadata(id_, add=add)
    words = heaviest_first(weights)[: np.count_nonzero(weights)]
    kept = words[:most]
    prior = model.prior
    assert isinstance(prior, NumpyModelNetwork)  # section_id lets no other model pass
    cells = prior(kept, np.full(kept.size, id_))
    names = [model.words[word] for word in kept.tolist()]
    return _marginal(model.sections[id_], names, weights[kept], cells, n_counted=n_counted)


def _of_words(
    model: PretrainedModel, name: str, words: Sequence[int], *, add: float, most: int | None
) -> Marginal:
    """The mixture of one word, or of the phrase that some words make."""
    prior, statistics = model.prior, model.statistics
    ids = np.array(words)
    if not isinstance(prior, NumpyModelNetwork):
        cell = prior.phrase(ids)
        one = NumpyGaussian(cell.mean[None], np.atleast_1d(cell.log_variance))
        return _marginal(name, [NULL_SECTION], np.ones(1), one, n_counted=int(model.word_counts[ids].min()))
    n_counted = {word: _n_counted(model, word) for word in words}
    known = [word for word, n in n_counted.items() if n or add]
    vector = prior.phrase(ids)[None]  # (1, E)
    if not known:
        return _marginal(name, [NULL_SECTION], np.ones(1), prior.of_vectors(vector, None), n_counted=0)
    weights = np.mean([statistics.metadata_given_word(word, add=add) for word in known], axis=0)  # (M,)
    sections = heaviest_first(weights)[: np.count_nonzero(weights)]
    kept = sections[:most]
    names = [model.sections[section] for section in kept.tolist()]
    cells = prior.of_vectors(vector, kept)
    return _marginal(name, names, weights[kept], cells, n_counted=min(n_counted[word] for word in known))


def _n_counted(model: PretrainedModel, word: int) -> int:
    row = slice(model.statistics.offsets[word], model.statistics.offsets[word + 1])
    return int(model.statistics.counts[row].sum())


def _marginal(
    name: str, parts: Sequence[str], weights: Floats, cells: NumpyGaussian, *, n_counted: int
) -> Marginal:
    covered = float(weights.sum())
    variances: npt.NDArray[np.float64] = np.exp(cells.log_variance.astype(np.float64))
    mixture = GaussianMixture(weights / covered, cells.mean.astype(np.float64), variances)
    return Marginal(name, tuple(parts), mixture, covered, n_counted)
