"""Clusters of sections."""

import json

import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from lmcells.analysis.planar import cut, ward_merges
from lmcells.analysis.sections import cluster_sections, frequent_sections, unit_embeddings
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


def test_planted_clusters_are_found(planted: PretrainedModel) -> None:
    found = cluster_sections(planted, network="prior", n_clusters=3)
    groups = {frozenset(each.section for each in cluster.sections) for cluster in found.clusters}
    assert groups == {
        frozenset({"SOCIAL HISTORY", "SHX"}),
        frozenset({"FAMILY HISTORY", "FHX"}),
        frozenset({"LABORATORY DATA", "CHEMISTRY", "PLAN"}),
    }
    assert [cluster.name for cluster in found.clusters] == [
        cluster.sections[0].section for cluster in found.clusters
    ]
    assert found.clusters[0].name == "SOCIAL HISTORY"  # the most words
    assert json.loads(json.dumps(found.to_dict()))["network"] == "prior"


@pytest.mark.parametrize("n_clusters", [0, 8])
def test_an_impossible_number_of_clusters_is_refused(planted: PretrainedModel, n_clusters: int) -> None:
    with pytest.raises(InputError, match="allowed: 1 to 7"):
        cluster_sections(planted, n_clusters=n_clusters)


def test_clusters_of_the_shipped_model_are_those_of_scikit_learn(shipped: PretrainedModel) -> None:
    vectors = unit_embeddings(shipped, "variational", frequent_sections(shipped)[:200])
    theirs = AgglomerativeClustering(n_clusters=12, linkage="ward").fit_predict(vectors)
    assert adjusted_rand_score(cut(ward_merges(vectors), 12), theirs) == pytest.approx(1)
