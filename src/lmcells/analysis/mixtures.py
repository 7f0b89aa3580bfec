"""Mixtures on a sheet of paper: where the means of their heaviest components lie, along two principal axes."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import NULL_SECTION, section_id, word_id
from lmcells.analysis.planar import principal_plane
from lmcells.analysis.statistics import Floats, isotropic_divergence, log_sum_exp, squared_distances
from lmcells.errors import InputError
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, PretrainedModel

# Mixtures of isotropic Gaussians: what a word, or a section, means as a whole.
#
#     p(z) = sum_k weight_k N(z; mean_k, variance_k I)
#
# `lmcells.analysis.mixtures.marginals` makes them from a model, `lmcells.analysis.mixtures.divergence` compares them.


Random = int | np.random.Generator  # a seed, or what draws already

_MOST_PAIRS = 1 << 21  # of a point and a component in one go: 16 MB


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A mixture of isotropic Gaussians.

    mixture = GaussianMixture([0.7, 0.3], [[0.0, 0.0], [2.0, 1.0]], [1.0, 0.5])
    mixture.sample(1_000, random=0)    # (1000, 2)
    mixture.log_density(points)        # (n, 2) -> (n,), in nats
    mixture.mean, mixture.covariance   # of the whole
    """

    weights: Floats  # (K,) above 0, adding to 1
    means: Floats  # (K, d)
    variances: Floats  # (K,)

    def __post_init__(self) -> None:
        for name in ("weights", "means", "variances"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        n = self.weights.size
        if not n or self.weights.shape != (n,) or self.variances.shape != (n,):
            raise ValueError(
                f"weights {self.weights.shape} and variances {self.variances.shape} must be one number a component."
            )
        if self.means.ndim != 2 or self.means.shape[0] != n:
            raise ValueError(f"means have shape {self.means.shape}; {n} components need ({n}, d).")
        if not (self.weights > 0).all() or not np.isclose(self.weights.sum(), 1):
            raise ValueError("weights must be above 0 and add to 1.")
        if not (self.variances > 0).all():
            raise ValueError("variances must be above 0.")

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Of the space of meanings."""
        return int(self.means.shape[1])

    @property
    def mean(self) -> Floats:
        """The expected meaning: (d,)."""
        return self.weights @ self.means

    @property
    def within(self) -> float:
        """The expected variance of a component, in each dimension."""
        return float(self.weights @ self.variances)

    @property
    def between(self) -> float:
        """The variance of the components' means, averaged over the dimensions."""
        offsets = self.means - self.mean
        return float(self.weights @ np.einsum("kd,kd->k", offsets, offsets)) / self.dim

    @property
    def total_variance(self) -> float:
        """The variance of a draw, averaged over the dimensions: within components and between them."""
        return self.within + self.between

    @property
    def covariance(self) -> Floats:
        """Of a draw: (d, d)."""
        offsets = self.means - self.mean
        covariance: Floats = (self.weights * offsets.T) @ offsets + self.within * np.eye(self.dim)
        return covariance

    @property
    def n_effective(self) -> float:
        """How many components of equal weight would be as hard to guess: exp(entropy of the weights)."""
        return float(np.exp(-(self.weights @ np.log(self.weights))))

    def sample(self, n: int, *, random: Random) -> Floats:
        """Draw meanings: (n, d)."""
        return self.sample_with_components(n, random=random)[0]

    def sample_with_components(self, n: int, *, random: Random) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw meanings, and the component that each came from: (n, d), (n,)."""
        random = np.random.default_rng(random)
        components = random.choice(len(self), size=n, p=self.weights / self.weights.sum())
        noise = random.standard_normal((n, self.dim))
        return self.means[components] + np.sqrt(self.variances[components])[:, None] * noise, components

    def log_density(self, points: npt.ArrayLike) -> Floats:
        """log p(z) of each point, in nats: (n, d) -> (n,)."""
        points = np.asarray(points, np.float64)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"points have shape {points.shape}; this mixture needs (n, {self.dim}).")
        densities = np.empty(points.shape[0])
        constants = np.log(self.weights) - 0.5 * self.dim * np.log(2 * np.pi * self.variances)  # (K,)
        for rows in blocks(points.shape[0], len(self)):
            terms = constants - squared_distances(points[rows], self.means) / (2 * self.variances)
            densities[rows] = log_sum_exp(terms)
        return densities

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {name: getattr(self, name).tolist() for name in ("weights", "means", "variances")}

    def reduced(self, n: int) -> Self:
        """The n heaviest components, their weights scaled to add to 1."""
        if n < 1:
            raise ValueError(f"a mixture needs at least one component; asked for {n}.")
        heaviest = heaviest_first(self.weights)[:n]
        weights = self.weights[heaviest]
        return type(self)(weights / weights.sum(), self.means[heaviest], self.variances[heaviest])


def heaviest_first(weights: Floats) -> npt.NDArray[np.intp]:
    """The order from the largest weight to the smallest; of equals, the first comes first."""
    return np.argsort(-weights, kind="stable")


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Pieces of the rows of a table, so small that a piece fits well into memory."""
    step = max(1, _MOST_PAIRS // max(1, n_columns))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


# How far a mixture of Gaussians is from another: KL(p || q) has no closed form, so it is sampled or approximated.
#
# `sampled_divergence` draws from p, is right on average and says how far off it may be. The others cost no draws; all
# start from the divergences D of single components (Hershey and Olsen, 2007, compare them):
#
#     matched      sum_a p_a ( D(a || b(a)) + log p_a / q_b(a) ),  b(a) = argmin_b D(a || b) - log q_b
#     variational  sum_a p_a log( sum_a' p_a' exp(-D(a || a')) / sum_b q_b exp(-D(a || b)) )
#     convex       sum_ab p_a q_b D(a || b)
#
# "Matched" is the matched bound of Goldberger et al. (2003). It is exact for single Gaussians and good where components
# lie apart; where those of p overlap it may fall below 0, so it is no bound. "Convex" is one, from above: the paper
# trains with it.


N_SAMPLES = 4_000


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """The mean of some draws and its standard error; what is known exactly has an error of 0 and no draws."""

    value: float
    standard_error: float
    n_samples: int

    @classmethod
    def of_draws(cls, values: Floats) -> "MonteCarlo":
        """The mean of independent draws."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), values.size)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def sampled_divergence(
    p: GaussianMixture, q: GaussianMixture, *, n_samples: int = N_SAMPLES, random: Random = 0
) -> MonteCarlo:
    """KL(p || q) in nats: the mean of log p(z) - log q(z) over draws from p; exact between single Gaussians.

    A divergence is never below 0; an estimate near 0 may be, within its error.
    """
    return _sampled_divergences(p, [q], n_samples=n_samples, random=random)[0]


def information(p: GaussianMixture, *, n_samples: int = N_SAMPLES, random: Random = 0) -> MonteCarlo:
    """How much a draw tells about the component that it came from, in nats: E[log p(z | k) - log p(z)].

    Between 0, where all components are the same, and the entropy of the weights, where they lie wholly apart: exp of
    it is the number of components that can be told apart.
    """
    if len(p) == 1:
        return MonteCarlo(0.0, 0.0, 0)
    points, components = p.sample_with_components(_enough(n_samples), random=random)
    offsets, variances = points - p.means[components], p.variances[components]
    given = -0.5 * (
        p.dim * np.log(2 * np.pi * variances) + np.einsum("nd,nd->n", offsets, offsets) / variances
    )
    return MonteCarlo.of_draws(given - p.log_density(points))


def entropy(p: GaussianMixture, *, n_samples: int = N_SAMPLES, random: Random = 0) -> MonteCarlo:
    """The differential entropy of a mixture in nats; exact for a single Gaussian."""
    # Only the part that has no closed form is drawn: -log p(z) alone varies ten times as much in 100 dimensions.
    drawn = information(p, n_samples=n_samples, random=random)
    of_components = 0.5 * p.dim * np.log(2 * np.pi * np.e * p.variances)
    return MonteCarlo(drawn.value + float(p.weights @ of_components), drawn.standard_error, drawn.n_samples)


def matched_bound(p: GaussianMixture, q: GaussianMixture) -> float:
    """Goldberger's approximation of KL(p || q): each component of p against the one of q that is its match."""
    _require_one_space(p, q)
    total = 0.0
    for rows in blocks(len(p), len(q)):
        costs = component_divergences(p, q, rows) - np.log(q.weights)
        total += float(p.weights[rows] @ (costs.min(axis=1) + np.log(p.weights[rows])))
    return total


def variational_approximation(p: GaussianMixture, q: GaussianMixture) -> float:
    """Hershey and Olsen's approximation of KL(p || q): every component against all others, the near ones most."""
    _require_one_space(p, q)
    return float(p.weights @ (_log_similarities(p, p) - _log_similarities(p, q)))


def convex_bound(p: GaussianMixture, q: GaussianMixture) -> float:
    """The mean divergence of all pairs of components: never below KL(p || q)."""
    _require_one_space(p, q)
    return sum(
        float(p.weights[rows] @ component_divergences(p, q, rows) @ q.weights)
        for rows in blocks(len(p), len(q))
    )


def component_divergences(p: GaussianMixture, q: GaussianMixture, rows: slice = slice(None)) -> Floats:
    """KL of each component of p, or of some of them, to each of q: (K_p, K_q)."""
    return isotropic_divergence(
        squared_distances(p.means[rows], q.means),
        log_variance=np.log(p.variances[rows])[:, None],
        other_log_variance=np.log(q.variances),
        dim=p.dim,
    )


@dataclass(frozen=True, slots=True)
class Divergence:
    """KL(p || q) in nats, drawn and approximated in three ways."""

    sampled: MonteCarlo
    matched: float
    variational: float
    convex: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def divergences(
    mixtures: Sequence[GaussianMixture], *, n_samples: int = N_SAMPLES, random: Random = 0
) -> dict[tuple[int, int], Divergence]:
    """KL of each mixture to each other, both ways, by their places; all of p's use the same draws from p."""
    random = np.random.default_rng(random)
    found = {}
    for first, p in enumerate(mixtures):
        others = [second for second in range(len(mixtures)) if second != first]
        drawn = _sampled_divergences(
            p, [mixtures[second] for second in others], n_samples=n_samples, random=random
        )
        for second, sampled in zip(others, drawn, strict=True):
            q = mixtures[second]
            found[first, second] = Divergence(
                sampled, matched_bound(p, q), variational_approximation(p, q), convex_bound(p, q)
            )
    return found


def _sampled_divergences(
    p: GaussianMixture, others: Sequence[GaussianMixture], *, n_samples: int, random: Random
) -> list[MonteCarlo]:
    points = p.sample(_enough(n_samples), random=random)
    own = p.log_density(points)
    found = []
    for q in others:
        _require_one_space(p, q)
        if len(p) == len(q) == 1:
            found.append(MonteCarlo(float(component_divergences(p, q)[0, 0]), 0.0, 0))
        else:
            found.append(MonteCarlo.of_draws(own - q.log_density(points)))
    return found


def _log_similarities(p: GaussianMixture, q: GaussianMixture) -> Floats:
    """log sum_b q_b exp(-D(a || b)) of each component a of p: (K_p,)."""
    similarities = np.empty(len(p))
    for rows in blocks(len(p), len(q)):
        similarities[rows] = log_sum_exp(np.log(q.weights) - component_divergences(p, q, rows))
    return similarities


def _require_one_space(p: GaussianMixture, q: GaussianMixture) -> None:
    if p.dim != q.dim:
        raise ValueError(f"the mixtures have {p.dim} and {q.dim} dimensions; they must have the same.")


def _enough(n_samples: int) -> int:
    if n_samples < 2:
        raise ValueError(f"an error estimate needs at least 2 draws; found {n_samples}.")
    return n_samples


# Words, phrases and sections as mixtures (the paper's appendix, "Words and Metadata as Mixtures").
#
#     p(z | w) = sum_m beta(m | w) p(z | w, m)      a word: one component a section that it was seen in
#     p(z | m) = sum_w beta(w | m) p(z | w, m)      a section: one component a word that was seen in it
#
# The weights are counts of the training text, and not smoothed unless `add` says so: smoothing drowns rare words. A model
# that was packed keeps only the larger counts, so `n_counted` says how many occurrences the weights rest on.


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


# Mixtures on a sheet of paper: where the means of their heaviest components lie, along two principal axes.


@dataclass(frozen=True, eq=False)
class MixturePlane:
    """Places of the heaviest components of some marginals, in their order, and of their expected meanings."""

    components: tuple[Floats, ...]  # one (n, 2) a marginal
    expected: Floats  # (n_marginals, 2)
    share: float  # of the squared distances from the middle, how much the plane shows

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "components": [places.tolist() for places in self.components],
            "expected": self.expected.tolist(),
            "share": self.share,
        }


def mixture_plane(marginals: Sequence[Marginal], *, most: int) -> MixturePlane:
    """Lay the `most` heaviest components of each marginal out on one plane."""
    shown = [marginal.mixture.means[:most] for marginal in marginals]
    points = np.vstack([*shown, *(marginal.mixture.mean for marginal in marginals)])
    plane = principal_plane(points)
    spread = float(np.square(points - points.mean(axis=0)).sum())
    ends = np.cumsum([len(means) for means in shown])
    *components, expected = np.split(plane, ends)
    return MixturePlane(
        tuple(components), expected, float(np.square(plane).sum()) / spread if spread else 1.0
    )
