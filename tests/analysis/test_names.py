"""Names as a person writes them, and what sections were like in training."""

import math
from pathlib import Path

import numpy as np
import pytest

from corpora import corpus_of
from expansion.clinic import random_model
from lmcells.analysis import names
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


def test_words_and_sections_may_be_written_in_any_case(planted: PretrainedModel) -> None:
    assert planted.words[names.word_id(planted, "History")] == "history"
    assert names.section_name(planted, "family history") == "FAMILY HISTORY"
    assert names.section_id(planted, "shx") == names.section_id(planted, "SHX")


def test_null_metadata_has_a_name(planted: PretrainedModel) -> None:
    assert names.section_name(planted, names.NULL_SECTION) == names.NULL_SECTION


def test_unknown_names_are_answered_with_known_ones(planted: PretrainedModel) -> None:
    with pytest.raises(InputError, match=r"does not know the word 'histroy'\. Nearest: history\."):
        names.word_id(planted, "histroy")
    with pytest.raises(InputError, match=r"'smoking mother' is not one word.*such as: smoking, mother\."):
        names.word_id(planted, "smoking mother")
    with pytest.raises(InputError, match=r"does not know the section 'zzz'\. It knows: [^<]*, and others\."):
        names.section_id(planted, "zzz")


def test_counts_entropy_and_topicality_are_those_of_the_text(tmp_path: Path) -> None:
    sections = [
        {"header": "PLAN", "text": "gait stairs gait walking"},
        {"header": "LABS", "text": "plasma bruise"},
    ]
    corpus = corpus_of(tmp_path / "corpus", [{"id": "a/1", "sections": sections * 3}])
    model = random_model(tmp_path / "model", corpus, "lmc")
    found = names.section_statistics(model)
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
