"""What sections were like in training, against counts made by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from corpora import corpus_of
from expansion.clinic import random_model
from lmcells.analysis.names import section_statistics


def test_counts_entropy_and_topicality_are_those_of_the_text(tmp_path: Path) -> None:
    sections = [
        {"header": "PLAN", "text": "gait stairs gait walking"},
        {"header": "LABS", "text": "plasma bruise"},
    ]
    corpus = corpus_of(tmp_path / "corpus", [{"id": "a/1", "sections": sections * 3}])
    model = random_model(tmp_path / "model", corpus, "lmc")
    found = section_statistics(model)
    plan, labs = model.section_ids["PLAN"], model.section_ids["LABS"]
    assert found.n_tokens[plan] == 12
    assert found.n_tokens[labs] == 6
    assert found.entropy[labs] == pytest.approx(math.log(2))
    assert found.entropy[plan] == pytest.approx(1.5 * math.log(2))
    # Words of one section only are as many times likelier in it as it is smaller than the whole text.
    assert found.topicality[labs] == pytest.approx(math.log(18 / 6))
    assert found.topicality[plan] == pytest.approx(math.log(18 / 12))
    unseen = found.n_tokens == 0
    assert np.isnan(found.topicality[unseen]).all()
    assert np.isnan(found.entropy[unseen]).all()
