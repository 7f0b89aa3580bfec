"""Ward's clustering: the groups of scikit-learn, every time."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from lmcells.analysis.planar import cut, ward_merges


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 1_000), st.data())
def test_wards_groups_are_those_of_scikit_learn(n: int, dim: int, seed: int, data: st.DataObject) -> None:
    points = np.random.default_rng(seed).normal(size=(n, dim))
    n_groups = data.draw(st.integers(1, n))
    groups = cut(ward_merges(points), n_groups)
    theirs = AgglomerativeClustering(n_clusters=n_groups, linkage="ward").fit_predict(points)
    assert adjusted_rand_score(groups, theirs) == 1
    assert set(groups) == set(range(n_groups))


def test_points_on_each_other_are_grouped_all_the_same() -> None:
    points = np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0)
    assert cut(ward_merges(points), 2).tolist() == [0] * 4 + [1] * 4
