"""Points of many dimensions on a sheet of paper: t-SNE in numpy, from the principal axes, with nothing drawn at random.

Written here, since scikit-learn is not needed for anything else that a user runs; a test compares the two. On the
200 sections of the shipped model the trustworthiness of 10 neighbours is 0.90, with two principal axes 0.76.
"""

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics import Floats, squared_distances

# Ward's hierarchical clustering in numpy: no seed, no starting points, the same groups every time.
#
# scikit-learn has it too, but looking at a model needs numpy alone; a test holds the two equal.


Ids = npt.NDArray[np.int64]


def ward_merges(points: Floats) -> tuple[Floats, Ids]:
    """Merge points, two groups at a time, until one is left: (n, d) -> heights (n - 1,), pairs (n - 1, 2).

    A group is named by one of its points. Merges come in order of height, the increase of the sum of squared
    distances to the groups' middles. Found by the chain of nearest neighbours (Murtagh 1983): O(n^2).
    """
    n = len(points)
    distance = squared_distances(points, points)  # (n, n)
    np.fill_diagonal(distance, np.inf)
    size = np.ones(n)
    alive = np.ones(n, np.bool_)
    heights: list[float] = []
    pairs: list[tuple[int, int]] = []
    chain: list[int] = []
    while len(heights) < n - 1:
        chain = chain or [int(np.flatnonzero(alive)[0])]
        while True:
            last = chain[-1]
            near = int(np.argmin(np.where(alive, distance[last], np.inf)))
            # The one before wins a tie: else the chain could run round in circles.
            if len(chain) > 1 and distance[last, chain[-2]] <= distance[last, near]:
                break
            chain.append(near)
        second, first = chain.pop(), chain.pop()
        heights.append(float(distance[first, second]))
        pairs.append((first, second))
        total = size[first] + size[second] + size  # Lance and Williams' update for Ward
        merged = (
            (size[first] + size) * distance[first]
            + (size[second] + size) * distance[second]
            - size * distance[first, second]
        ) / total
        size[first] += size[second]
        alive[second] = False
        merged[first] = np.inf
        distance[first], distance[:, first] = merged, merged
    order = np.argsort(heights, kind="stable")
    return np.array(heights, np.float64)[order], np.array(pairs, np.int64).reshape(-1, 2)[order]


def cut(merges: tuple[Floats, Ids], n_groups: int) -> Ids:
    """Undo the highest merges until there are `n_groups`; -> the group of each point, numbered as they appear."""
    _, pairs = merges
    parent = np.arange(len(pairs) + 1)
    for first, second in pairs[: len(parent) - n_groups].tolist():
        parent[_root(parent, second)] = _root(parent, first)
    roots = [_root(parent, point) for point in range(len(parent))]
    group_of = {root: group for group, root in enumerate(dict.fromkeys(roots))}
    return np.array([group_of[root] for root in roots], np.int64)


def _root(parent: Ids, point: int) -> int:
    while parent[point] != point:
        point = int(parent[point])
    return point


# Points of many dimensions on a sheet of paper: t-SNE in numpy, from the principal axes, with nothing drawn at random.
#
# Written here, since scikit-learn is not needed for anything else that a user runs; a test compares the two. On the
# 200 sections of the shipped model the trustworthiness of 10 neighbours is 0.90, with two principal axes 0.76.


_EXAGGERATION, _N_EXAGGERATED = 12.0, 150
_MOMENTUM, _LATE_MOMENTUM = 0.5, 0.8
_TINY = 1e-12


def principal_plane(points: Floats) -> Floats:
    """The first two principal axes: (n, d) -> (n, 2). On each, the farthest point is on the positive side."""
    centered = points - points.mean(axis=0)
    left, scale, _ = np.linalg.svd(centered, full_matrices=False)
    plane = np.zeros((len(points), 2))
    n_axes = min(2, scale.size)
    plane[:, :n_axes] = left[:, :n_axes] * scale[:n_axes]
    farthest = plane[np.abs(plane).argmax(axis=0), (0, 1)]
    oriented: Floats = plane * np.where(farthest < 0, -1.0, 1.0)
    return oriented


def lay_out(points: Floats, *, perplexity: float = 30.0, n_steps: int = 750) -> Floats:
    """Keep neighbours together (van der Maaten and Hinton 2008): (n, d) -> (n, 2), centered, standard deviation one.

    `perplexity` is about how many neighbours a point has; few points have fewer.
    """
    n = len(points)
    plane = principal_plane(points)
    if n <= 3:
        return _standardised(plane)
    affinity = _affinities(squared_distances(points, points), min(perplexity, (n - 1) / 3))  # (n, n)
    plane *= 1e-4 / max(float(plane[:, 0].std()), _TINY)
    rate = max(n / _EXAGGERATION, 50.0)
    velocity, gain = np.zeros_like(plane), np.ones_like(plane)
    for step in range(n_steps):
        early = step < _N_EXAGGERATED
        kernel = 1 / (1 + squared_distances(plane, plane))  # Student's t with one degree of freedom
        np.fill_diagonal(kernel, 0)
        pull = affinity * (_EXAGGERATION if early else 1) - kernel / kernel.sum()
        pull *= kernel
        gradient = 4 * (pull.sum(axis=1, keepdims=True) * plane - pull @ plane)  # (n, 2)
        gain = np.maximum(np.where(gradient * velocity < 0, gain + 0.2, gain * 0.8), 0.01)
        velocity = (_MOMENTUM if early else _LATE_MOMENTUM) * velocity - rate * gain * gradient
        plane = plane + velocity
    return _standardised(plane)


def trustworthiness(points: Floats, plane: Floats, *, n_neighbors: int = 10) -> float:
    """Whether neighbours on the plane were neighbours before (Venna and Kaski 2001): 1 at best, about 0.5 by chance."""
    n = len(points)
    n_neighbors = max(1, min(n_neighbors, (n - 1) // 2))
    before = squared_distances(points, points)
    np.fill_diagonal(before, -1)
    rank = np.argsort(
        np.argsort(before, axis=1, kind="stable"), axis=1, kind="stable"
    )  # 0 is the point itself
    after = squared_distances(plane, plane)
    np.fill_diagonal(after, -1)
    near = np.argsort(after, axis=1, kind="stable")[:, 1 : n_neighbors + 1]
    excess = np.maximum(np.take_along_axis(rank, near, axis=1) - n_neighbors, 0).sum()
    worst = n * n_neighbors * (2 * n - 3 * n_neighbors - 1) / 2
    return float(1 - excess / worst) if worst > 0 else 1.0  # of one or two points nothing can be out of place


def _affinities(distances: Floats, perplexity: float) -> Floats:
    """Joint probabilities of pairs, each point's Gaussian as wide as its perplexity asks for: (n, n) -> (n, n)."""
    n = len(distances)
    low, high = np.zeros((n, 1)), np.full((n, 1), np.inf)
    precision = np.ones((n, 1))
    others = ~np.eye(n, dtype=np.bool_)
    shifted = (distances - np.where(others, distances, np.inf).min(axis=1, keepdims=True)) * others
    for _ in range(64):
        weights = np.exp(-shifted * precision) * others
        total = weights.sum(axis=1, keepdims=True)
        entropy = np.log(total) + precision * (shifted * weights).sum(axis=1, keepdims=True) / total
        too_wide = entropy > np.log(perplexity)
        low, high = np.where(too_wide, precision, low), np.where(too_wide, high, precision)
        precision = np.where(np.isinf(high), precision * 2, (low + high) / 2)
    conditional = weights / total
    joint: Floats = np.maximum((conditional + conditional.T) / (2 * n), _TINY)
    return joint


def _standardised(plane: Floats) -> Floats:
    centered = plane - plane.mean(axis=0)
    standardised: Floats = centered / max(float(centered.std()), _TINY)
    return standardised
