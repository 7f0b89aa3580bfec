"""The embeddings of sections, and which sections there are."""

import pytest

from lmcells.analysis.sections import cluster_sections, frequent_sections
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


def test_text_without_a_header_is_no_section(shipped: PretrainedModel) -> None:
    names = {shipped.sections[id_] for id_ in frequent_sections(shipped)}
    assert "METHODS" in names
    assert not names & {"<no section>", "<other>"}


def test_an_unknown_network_is_refused(planted: PretrainedModel) -> None:
    with pytest.raises(InputError, match=r"allowed: variational, prior\. Nearest: 'prior'"):
        cluster_sections(planted, network="priory", n_clusters=2)
