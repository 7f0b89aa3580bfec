"""Points on a plane: neighbours stay together, as well as scikit-learn keeps them."""

import numpy as np
import pytest
from sklearn.manifold import TSNE
from sklearn.manifold import trustworthiness as trustworthiness_in_sklearn

from lmcells.analysis.planar import lay_out, principal_plane, trustworthiness
from lmcells.analysis.sections import frequent_sections, unit_embeddings
from lmcells.pretrained import PretrainedModel


def test_trustworthiness_is_that_of_scikit_learn(shipped: PretrainedModel) -> None:
    vectors = unit_embeddings(shipped, "prior", frequent_sections(shipped)[:80])
    plane = principal_plane(vectors)
    assert trustworthiness(vectors, plane, n_neighbors=7) == pytest.approx(
        trustworthiness_in_sklearn(vectors, plane, n_neighbors=7)
    )


def test_the_map_keeps_neighbors_much_better_than_principal_axes_and_like_scikit_learn(
    shipped: PretrainedModel,
) -> None:
    vectors = unit_embeddings(shipped, "variational", frequent_sections(shipped)[:150])
    ours = trustworthiness_in_sklearn(vectors, lay_out(vectors), n_neighbors=10)
    theirs = TSNE(init="pca", random_state=0).fit_transform(vectors)
    assert ours > trustworthiness_in_sklearn(vectors, principal_plane(vectors), n_neighbors=10) + 0.08
    assert ours > trustworthiness_in_sklearn(vectors, theirs, n_neighbors=10) - 0.03


def test_planted_groups_lie_apart_on_the_map() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(4), 12, axis=0) * 8
    plane = lay_out(groups + random.normal(size=groups.shape, scale=0.5))
    distance = np.linalg.norm(plane[:, None] - plane, axis=2)
    same = np.repeat(np.arange(4), 12)[:, None] == np.repeat(np.arange(4), 12)
    assert distance[same].max() < distance[~same].min()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_points_can_be_laid_out(n: int) -> None:
    plane = lay_out(np.random.default_rng(0).normal(size=(n, 3)))
    assert plane.shape == (n, 2)
    assert np.isfinite(plane).all()
    assert 0 <= trustworthiness(plane, plane) <= 1
