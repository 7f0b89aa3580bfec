"""Mixtures of isotropic Gaussians, and how far apart they are.

KL(p || q) of mixtures has no closed form. `sampled_divergence` draws from p, is unbiased and has a standard error. The
others start from the divergences D of single components (Hershey and Olsen, 2007, compare them):

    matched      sum_a p_a ( D(a || b(a)) + log p_a / q_b(a) ),  b(a) = argmin_b D(a || b) - log q_b
    variational  sum_a p_a log( sum_a' p_a' exp(-D(a || a')) / sum_b q_b exp(-D(a || b)) )
    convex       sum_ab p_a q_b D(a || b)

"Matched" is the matched bound of Goldberger et al. (2003): exact for single Gaussians and good where components lie
apart; where those of p overlap it may fall below 0, so it is no bound. "Convex" is an upper bound: the paper trains
with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics import Floats, isotropic_divergence, log_sum_exp, squared_distances

Random = int | np.random.Generator  # a seed or a generator

N_SAMPLES = 4_000
_MOST_PAIRS = 1 << 21  # of a point and a component, computed at once: 16 MB


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A mixture of isotropic Gaussians: p(z) = sum_k weight_k N(z; mean_k, variance_k I)."""

    weights: Floats  # (K,) positive, summing to 1
    means: Floats  # (K, d)
    variances: Floats  # (K,)

    def __post_init__(self) -> None:
        for name in ("weights", "means", "variances"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def dim(self) -> int:
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
        """The variance of a draw, averaged over the dimensions: within components plus between them."""
        return self.within + self.between

    @property
    def covariance(self) -> Floats:
        """The covariance of a draw: (d, d)."""
        offsets = self.means - self.mean
        covariance: Floats = (self.weights * offsets.T) @ offsets + self.within * np.eye(self.dim)
        return covariance

    @property
    def n_effective(self) -> float:
        """The effective number of components: exp(entropy of the weights)."""
        return float(np.exp(-(self.weights @ np.log(self.weights))))

    def sample(self, n: int, *, random: Random) -> Floats:
        return self.sample_with_components(n, random=random)[0]

    def sample_with_components(self, n: int, *, random: Random) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw points, and the component that each came from: (n, d), (n,)."""
        random = np.random.default_rng(random)
        components = random.choice(len(self), size=n, p=self.weights / self.weights.sum())
        noise = random.standard_normal((n, self.dim))
        return self.means[components] + np.sqrt(self.variances[components])[:, None] * noise, components

    def log_density(self, points: npt.ArrayLike) -> Floats:
        """log p(z) of each point, in nats: (n, d) -> (n,)."""
        points = np.asarray(points, np.float64)
        densities = np.empty(points.shape[0])
        constants = np.log(self.weights) - 0.5 * self.dim * np.log(2 * np.pi * self.variances)  # (K,)
        for rows in _blocks(points.shape[0], len(self)):
            terms = constants - squared_distances(points[rows], self.means) / (2 * self.variances)
            densities[rows] = log_sum_exp(terms)
        return densities


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    step = max(1, _MOST_PAIRS // max(1, n_columns))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


class MonteCarlo(NamedTuple):
    """The mean of some draws and its standard error; an exact value has an error of 0 and no draws."""

    value: float
    standard_error: float
    n_samples: int

    @classmethod
    def of_draws(cls, values: Floats) -> "MonteCarlo":
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), values.size)


def information(p: GaussianMixture, *, n_samples: int = N_SAMPLES, random: Random = 0) -> MonteCarlo:
    """How much a draw tells about the component that it came from, in nats: E[log p(z | k) - log p(z)].

    Between 0, where all components are the same, and the entropy of the weights, where they lie wholly apart: exp of
    it is the number of components that can be told apart.
    """
    if len(p) == 1:
        return MonteCarlo(0.0, 0.0, 0)
    points, components = p.sample_with_components(n_samples, random=random)
    offsets, variances = points - p.means[components], p.variances[components]
    scaled = np.einsum("nd,nd->n", offsets, offsets) / variances
    given = -0.5 * (p.dim * np.log(2 * np.pi * variances) + scaled)
    return MonteCarlo.of_draws(given - p.log_density(points))


def entropy(p: GaussianMixture, told: MonteCarlo) -> MonteCarlo:
    """The differential entropy of a mixture in nats, given its `information`; exact for a single Gaussian."""
    # Only the part without a closed form is drawn: -log p(z) alone varies ten times as much in 100 dimensions.
    of_components = 0.5 * p.dim * np.log(2 * np.pi * np.e * p.variances)
    return told._replace(value=told.value + float(p.weights @ of_components))


def sampled_divergence(
    p: GaussianMixture, q: GaussianMixture, *, n_samples: int = N_SAMPLES, random: Random = 0
) -> MonteCarlo:
    """KL(p || q) in nats by draws from p; near 0 the estimate may be below 0; exact between single Gaussians."""
    return sampled_divergences(p, [q], n_samples=n_samples, random=random)[0]


def sampled_divergences(
    p: GaussianMixture, others: Sequence[GaussianMixture], *, n_samples: int, random: Random
) -> list[MonteCarlo]:
    """KL(p || q) of each other mixture q, by the same draws from p."""
    points = p.sample(n_samples, random=random)
    own = p.log_density(points)
    found = []
    for q in others:
        if len(p) == len(q) == 1:
            found.append(MonteCarlo(float(component_divergences(p, q)[0, 0]), 0.0, 0))
        else:
            found.append(MonteCarlo.of_draws(own - q.log_density(points)))
    return found


def matched_bound(p: GaussianMixture, q: GaussianMixture) -> float:
    """Goldberger's approximation of KL(p || q): each component of p against its match in q."""
    total = 0.0
    for rows in _blocks(len(p), len(q)):
        costs = component_divergences(p, q, rows) - np.log(q.weights)
        total += float(p.weights[rows] @ (costs.min(axis=1) + np.log(p.weights[rows])))
    return total


def variational_approximation(p: GaussianMixture, q: GaussianMixture) -> float:
    """Hershey and Olsen's approximation of KL(p || q): every component against all others, near ones most."""

    def log_similarities(other: GaussianMixture) -> Floats:  # log sum_b other_b exp(-D(a || b)): (K_p,)
        blocks = [component_divergences(p, other, rows) for rows in _blocks(len(p), len(other))]
        return np.concatenate([log_sum_exp(np.log(other.weights) - block) for block in blocks])

    return float(p.weights @ (log_similarities(p) - log_similarities(q)))


def convex_bound(p: GaussianMixture, q: GaussianMixture) -> float:
    """The mean divergence of all pairs of components: never below KL(p || q)."""
    blocks = _blocks(len(p), len(q))
    return sum(float(p.weights[rows] @ component_divergences(p, q, rows) @ q.weights) for rows in blocks)


def component_divergences(p: GaussianMixture, q: GaussianMixture, rows: slice = slice(None)) -> Floats:
    """KL of each component of p, or of some of them, to each of q: (K_p, K_q)."""
    return isotropic_divergence(
        squared_distances(p.means[rows], q.means),
        log_variance=np.log(p.variances[rows])[:, None],
        other_log_variance=np.log(q.variances),
        dim=p.dim,
    )
