"""Ward's hierarchical clustering in numpy: no seed, no starting points, the same groups every time.

scikit-learn has it too, but looking at a model needs numpy alone; a test holds the two equal.
"""

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics.distances import Floats, squared_distances

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
