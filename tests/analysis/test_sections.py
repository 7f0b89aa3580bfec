"""Sections: neighbours in both networks, clusters, and the map."""

import json
import sys

import numpy as np
import pytest

from lmcells.analysis import Row, sections
from lmcells.errors import MissingExtra
from lmcells.pretrained import PretrainedModel


def test_text_without_a_header_is_no_section(shipped: PretrainedModel) -> None:
    names = {shipped.sections[id_] for id_ in sections.frequent_sections(shipped)}
    assert "METHODS" in names
    assert not names & {"<no section>", "<other>"}


def test_the_nearest_section_is_the_planted_one_in_each_network(planted: PretrainedModel) -> None:
    social = sections.nearest_sections(planted, "social history")
    assert (social.section, social.count) == ("SOCIAL HISTORY", 24)
    assert [near[0].section for near in (social.variational, social.prior)] == ["SHX", "SHX"]
    assert social.prior[0].cosine == pytest.approx(0.9 / np.hypot(0.9, 0.1))
    plan = sections.nearest_sections(planted, "PLAN", n=1)
    assert plan.variational[0].section in ("SOCIAL HISTORY", "SHX")
    assert plan.prior[0].section in ("LABORATORY DATA", "CHEMISTRY")


def test_networks_that_agree_share_all_neighbors(planted: PretrainedModel) -> None:
    assert sections.shared_neighbors(planted, n=100) == 6  # all others
    assert 0 < sections.shared_neighbors(planted, n=1) < 1  # PLAN has another neighbour


@pytest.mark.parametrize(
    ("section", "near"),
    [
        ("SOCIAL HISTORY", "SHX"),
        ("FAMILY HISTORY", "FHX"),
        ("MEDICATIONS", "CURRENT MEDICATIONS"),
        ("PHYSICAL EXAMINATION", "PHYSICAL EXAM"),
    ],
)
def test_both_networks_of_the_shipped_model_know_other_names_of_a_section(
    shipped: PretrainedModel, section: str, near: str
) -> None:
    found = sections.nearest_sections(shipped, section)
    for network in (found.variational, found.prior):
        assert near in [each.section for each in network]


def test_the_model_network_knows_other_names_in_pathology_reports(shipped: PretrainedModel) -> None:
    near = sections.nearest_sections(shipped, "GROSS DESCRIPTION").prior
    assert "GROSS EXAMINATION" in [each.section for each in near]


def test_planted_clusters_are_found(planted: PretrainedModel) -> None:
    found = sections.cluster_sections(planted, network="prior", n_clusters=3)
    assert {cluster.name: {each.section for each in cluster.sections} for cluster in found} == {
        "SOCIAL HISTORY": {"SOCIAL HISTORY", "SHX"},
        "FAMILY HISTORY": {"FAMILY HISTORY", "FHX"},
        "LABORATORY DATA": {"LABORATORY DATA", "CHEMISTRY", "PLAN"},
    }
    assert found[0].name == "SOCIAL HISTORY"  # the most words


def test_the_same_model_gives_the_same_map(mapped: Row, shipped: PretrainedModel) -> None:
    assert sections.map_sections(shipped, n_sections=80) == mapped
    assert mapped.trustworthiness > 0.8
    assert len(mapped.sections) == 80
    counts = [section.count for section in mapped.sections]
    assert counts == sorted(counts, reverse=True)
    assert json.loads(json.dumps(mapped.to_dict()))["clusters"] == list(mapped.clusters)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_sections_can_be_mapped(planted: PretrainedModel, n: int) -> None:
    mapped = sections.map_sections(planted, n_sections=n)
    assert np.isfinite([(each.x, each.y) for each in mapped.sections]).all()
    assert len(mapped.sections) == n


def test_without_scikit_learn_the_map_has_principal_axes_and_one_cluster(
    planted: PretrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    mapped = sections.map_sections(planted, n_clusters=3)
    assert mapped.clusters == ("SOCIAL HISTORY",)
    assert np.isnan(mapped.trustworthiness)
    place = {each.section: np.array([each.x, each.y]) for each in mapped.sections}
    near, far = (np.linalg.norm(place["FAMILY HISTORY"] - place[name]) for name in ("FHX", "SHX"))
    assert near < far
    with pytest.raises(MissingExtra, match=r"Clustering sections needs scikit-learn.*lmcells\[report\]"):
        sections.cluster_sections(planted, n_clusters=3)
