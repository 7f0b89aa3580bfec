"""Mixtures of isotropic Gaussians: what a word, or a section, means as a whole.

    p(z) = sum_k weight_k N(z; mean_k, variance_k I)

`lmcells.analysis.mixtures.marginals` makes them from a model, `lmcells.analysis.mixtures.divergence` compares them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics.distances import Floats, squared_distances
from lmcells.analysis.statistics.log_sums import log_sum_exp

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
