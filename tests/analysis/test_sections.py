"""Sections: nearest ones in both networks, clusters as scikit-learn finds them, and a map that can be read."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering
from sklearn.manifold import TSNE
from sklearn.manifold import trustworthiness as trustworthiness_in_sklearn
from sklearn.metrics import adjusted_rand_score

from analysis.drawn import drawn_texts
from analysis.planted import planted_model
from lmcells.analysis.agglomeration import cut, ward_merges
from lmcells.analysis.label_placement import overlapping
from lmcells.analysis.planar import lay_out, principal_plane, trustworthiness
from lmcells.analysis.section_map import SectionMap, map_sections
from lmcells.analysis.sections import (
    cluster_sections,
    frequent_sections,
    nearest_sections,
    shared_neighbors,
    unit_embeddings,
)
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.shipped import shipped_model


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return planted_model(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def shipped() -> PretrainedModel:
    return PretrainedModel.from_pretrained(shipped_model())


@pytest.fixture(scope="module")
def mapped(shipped: PretrainedModel) -> SectionMap:
    return map_sections(shipped)


def test_the_nearest_section_is_the_planted_one_in_each_network(planted: PretrainedModel) -> None:
    social = nearest_sections(planted, "social history")
    assert (social.section, social.count) == ("SOCIAL HISTORY", 24)
    assert [near[0].section for near in (social.variational, social.prior)] == ["SHX", "SHX"]
    assert social.prior[0].cosine == pytest.approx(0.9 / np.hypot(0.9, 0.1))
    plan = nearest_sections(planted, "PLAN", n=1)
    assert plan.variational[0].section in ("SOCIAL HISTORY", "SHX")
    assert plan.prior[0].section in ("LABORATORY DATA", "CHEMISTRY")


def test_text_without_a_header_is_no_section(shipped: PretrainedModel) -> None:
    names = {shipped.sections[id_] for id_ in frequent_sections(shipped)}
    assert "METHODS" in names
    assert not names & {"<no section>", "<other>"}


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


def test_an_unknown_network_is_refused(planted: PretrainedModel) -> None:
    with pytest.raises(InputError, match=r"allowed: variational, prior\. Nearest: 'prior'"):
        cluster_sections(planted, network="priory", n_clusters=2)


def test_networks_that_agree_share_all_neighbors(planted: PretrainedModel) -> None:
    assert shared_neighbors(planted, n=100) == 6  # all others
    assert 0 < shared_neighbors(planted, n=1) < 1  # PLAN has another neighbour


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


def test_clusters_of_the_shipped_model_are_those_of_scikit_learn(shipped: PretrainedModel) -> None:
    vectors = unit_embeddings(shipped, "variational", frequent_sections(shipped)[:200])
    theirs = AgglomerativeClustering(n_clusters=12, linkage="ward").fit_predict(vectors)
    assert adjusted_rand_score(cut(ward_merges(vectors), 12), theirs) == pytest.approx(1)


@pytest.mark.parametrize(
    ("section", "near"),
    [
        ("SOCIAL HISTORY", "SHX"),
        ("FAMILY HISTORY", "FHX"),
        ("MEDICATIONS", "CURRENT MEDICATIONS"),
        ("GROSS DESCRIPTION", "GROSS EXAMINATION"),
    ],
)
def test_both_networks_of_the_shipped_model_know_other_names_of_a_section(
    shipped: PretrainedModel, section: str, near: str
) -> None:
    found = nearest_sections(shipped, section)
    for network in (found.variational, found.prior):
        assert near in [each.section for each in network]


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


def test_the_same_model_gives_the_same_map(mapped: SectionMap, shipped: PretrainedModel) -> None:
    assert map_sections(shipped) == mapped
    assert mapped.trustworthiness > 0.9
    assert len(mapped.sections) == 200
    counts = [section.count for section in mapped.sections]
    assert counts == sorted(counts, reverse=True)
    assert json.loads(json.dumps(mapped.to_dict()))["clusters"] == list(mapped.clusters)


def test_no_two_names_on_the_map_overlap(mapped: SectionMap) -> None:
    from lmcells.analysis.drawing_sections import draw_section_map

    drawn = draw_section_map(mapped)
    texts, boxes = drawn_texts(drawn.figure)
    assert overlapping(boxes) == []
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= drawn.figure.bbox.size).all()
    n_beside = len(texts) - len(mapped.clusters) - 2  # less the legend, its title and the note
    assert n_beside == drawn.n_labelled
    assert 100 < drawn.n_labelled < len(mapped.sections)
    assert any(f"{drawn.n_labelled} of 200 sections named" in text for text in texts)
    assert {section.section for section in mapped.sections[:8]} <= set(texts)  # frequent sections come first


def test_the_figure_of_neighbors_names_them_all(shipped: PretrainedModel) -> None:
    from lmcells.analysis.drawing_sections import draw_nearest_sections

    found = nearest_sections(shipped, "ALLERGIES", n=5)
    texts, boxes = drawn_texts(draw_nearest_sections(found))
    assert {each.section for each in (*found.variational, *found.prior)} <= set(texts)
    assert {"variational network", "model network"} <= set(texts)
    assert overlapping(boxes) == []
