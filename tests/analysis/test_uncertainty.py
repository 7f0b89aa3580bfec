"""How sure a model is of its words: what is measured, and what it goes with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.planted import planted_variances
from expansion.clinic import INVENTORY
from lmcells.analysis.cells import expected_words
from lmcells.analysis.point_figures import draw_uncertainty
from lmcells.analysis.uncertainty import associations, count_senses, named_words, word_variances
from lmcells.errors import InputError
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.layers import shipped_inventory
from lmcells.figure_style import save_as
from lmcells.pretrained import PretrainedModel


def test_words_have_the_variances_of_their_mixtures(model: PretrainedModel) -> None:
    found = word_variances(model, inventory=INVENTORY, min_count=1)
    expected = expected_words(model)
    for row in found:
        id_ = model.word_ids[row.word]
        assert (row.within, row.between) == (expected.within[id_], expected.between[id_])
    (pt,) = named_words(model, found, ["PT"])
    assert (pt.word, pt["count"], pt.n_senses) == ("pt", 80, 2)
    assert pt.n_sections == pytest.approx(2)
    assert pt.total == pytest.approx(pt.within + pt.between)
    assert pt.share_below == np.mean([row.within < pt.within for row in found])


def test_senses_are_long_forms_of_a_short_form_however_it_is_written() -> None:
    forms = [("PT", "patient"), ("Pt", "Patient"), ("pt", "platinum"), ("MS", "mitral stenosis")]
    assert count_senses(SenseInventory.from_senses([Sense(*each) for each in forms])) == {"pt": 2, "ms": 1}


def test_each_variance_goes_with_what_was_planted() -> None:
    found = {
        (each.variance, each.against, each.given): each
        for each in associations(planted_variances(), n_resamples=200, seed=1)
    }
    assert len(found) == 15
    assert found["within", "senses", None].rho.low > 0.9
    assert found["within", "senses", "frequency"].rho.low > 0.9
    assert found["between", "sections", None].rho.low > 0.9
    for variance, against in (("within", "frequency"), ("between", "frequency"), ("within", "sections")):
        assert abs(found[variance, against, None].rho.estimate) < 0.15
    assert found["within", "senses", None].n_words == sum(row.n_senses > 0 for row in planted_variances())
    assert found["within", "sections", None].n_words == 400


def test_without_an_inventory_nothing_is_said_about_senses(model: PretrainedModel) -> None:
    variances = word_variances(model, min_count=1)
    assert not any(row.n_senses for row in variances)
    assert {each.against for each in associations(variances, n_resamples=20)} == {"frequency", "sections"}


def test_a_model_without_sections_has_prior_variances_alone(
    tmp_path: Path, small_models: dict[str, PretrainedModel]
) -> None:
    variances = word_variances(small_models["bsg"], min_count=1)
    assert not any(row.between for row in variances)
    found = associations(variances, n_resamples=20)
    assert {(each.variance, each.against) for each in found} == {
        ("within", "frequency"),
        ("total", "frequency"),
    }
    save_as(draw_uncertainty(variances, found), tmp_path / "bsg.svg")


def test_rare_and_uncounted_words_and_placeholders_are_left_out(
    model: PretrainedModel, shipped: PretrainedModel
) -> None:
    often = word_variances(model, min_count=30)
    assert min(row["count"] for row in often) >= 30
    with pytest.raises(InputError, match="'valve' was seen"):
        named_words(model, often, ["valve"])
    with pytest.raises(
        InputError, match=r"0 words of the model were seen 9,999 times or more.*Lower the minimum count"
    ):
        word_variances(model, min_count=9_999)
    with pytest.raises(InputError, match="0 words"):
        word_variances(replace(model, statistics=model.statistics.at_least(1_000_000)), min_count=1)
    assert "<digit>" in shipped.words
    assert "<digit>" not in [row.word for row in word_variances(shipped)]


def test_in_the_shipped_model_ambiguous_short_forms_move_more_with_their_section(
    shipped: PretrainedModel,
) -> None:
    found = {
        (each.variance, each.against, each.given): each.rho
        for each in associations(word_variances(shipped, inventory=shipped_inventory()), n_resamples=100)
    }
    assert found["between", "senses", "frequency"].low > 0
    assert found["between", "sections", "frequency"].low > found["within", "sections", "frequency"].high
