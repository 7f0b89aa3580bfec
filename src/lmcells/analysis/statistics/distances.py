"""Distances of all pairs of points."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def squared_distances(first: Floats, second: Floats) -> Floats:
    """|x - y|^2 of all pairs: (n, d), (m, d) -> (n, m)."""
    # Both moved to the middle of one: far from the origin the three terms would cancel.
    center = second.mean(axis=0)
    first, second = first - center, second - center
    lengths = np.einsum("nd,nd->n", first, first)[:, None] + np.einsum("md,md->m", second, second)
    distances: Floats = np.maximum(lengths - 2 * first @ second.T, 0)
    return distances
