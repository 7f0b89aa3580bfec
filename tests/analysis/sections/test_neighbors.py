"""Nearest sections, in both networks."""

import numpy as np
import pytest

from lmcells.analysis.sections import nearest_sections, shared_neighbors
from lmcells.pretrained import PretrainedModel


def test_the_nearest_section_is_the_planted_one_in_each_network(planted: PretrainedModel) -> None:
    social = nearest_sections(planted, "social history")
    assert (social.section, social.count) == ("SOCIAL HISTORY", 24)
    assert [near[0].section for near in (social.variational, social.prior)] == ["SHX", "SHX"]
    assert social.prior[0].cosine == pytest.approx(0.9 / np.hypot(0.9, 0.1))
    plan = nearest_sections(planted, "PLAN", n=1)
    assert plan.variational[0].section in ("SOCIAL HISTORY", "SHX")
    assert plan.prior[0].section in ("LABORATORY DATA", "CHEMISTRY")


def test_networks_that_agree_share_all_neighbors(planted: PretrainedModel) -> None:
    assert shared_neighbors(planted, n=100) == 6  # all others
    assert 0 < shared_neighbors(planted, n=1) < 1  # PLAN has another neighbour


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
    found = nearest_sections(shipped, section)
    for network in (found.variational, found.prior):
        assert near in [each.section for each in network]


def test_the_model_network_knows_other_names_in_pathology_reports(shipped: PretrainedModel) -> None:
    assert "GROSS EXAMINATION" in [
        each.section for each in nearest_sections(shipped, "GROSS DESCRIPTION").prior
    ]
