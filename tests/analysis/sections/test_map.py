"""The map of sections."""

import json

import pytest

from lmcells.analysis.sections import SectionMap, map_sections
from lmcells.pretrained import PretrainedModel


@pytest.fixture(scope="module")
def mapped(shipped: PretrainedModel) -> SectionMap:
    return map_sections(shipped)


def test_the_same_model_gives_the_same_map(mapped: SectionMap, shipped: PretrainedModel) -> None:
    assert map_sections(shipped) == mapped
    assert mapped.trustworthiness > 0.8
    assert len(mapped.sections) == 200
    counts = [section.count for section in mapped.sections]
    assert counts == sorted(counts, reverse=True)
    assert json.loads(json.dumps(mapped.to_dict()))["clusters"] == list(mapped.clusters)
