"""Expected meanings: the moments of all mixtures at once are those of each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.small_models import small_model
from lmcells.analysis.cells import (
    WordCells,
    expected_section_vectors,
    expected_sections,
    expected_word_vectors,
    expected_words,
)
from lmcells.analysis.mixtures import section_mixture, word_mixture
from lmcells.errors import InputError
from lmcells.pretrained import NumpyModelNetwork, NumpyWordPrior, PretrainedModel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return small_model(tmp_path_factory.mktemp("lmc"))


@pytest.mark.parametrize("block", [3, 1 << 14])
def test_every_word_has_the_moments_of_its_mixture(
    model: PretrainedModel, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("lmcells.analysis.cells._MAX_PAIRS", block)
    found = expected_words(model)
    for row, word in enumerate(model.words):
        mixture = word_mixture(model, word).mixture
        np.testing.assert_allclose(found.mean[row], mixture.mean, atol=1e-6)
        assert found.within[row] == pytest.approx(mixture.within, rel=1e-6)
        assert found.between[row] == pytest.approx(mixture.between, rel=1e-4, abs=1e-8)
        assert found.total_variance[row] == pytest.approx(mixture.total_variance, rel=1e-6)
        assert found.n_effective[row] == pytest.approx(mixture.n_effective)
        assert found.n_counted[row] == model.word_counts[row]


@pytest.mark.parametrize("block", [7, 1 << 14])
def test_every_section_has_the_moments_of_its_mixture(
    model: PretrainedModel, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("lmcells.analysis.cells._MAX_PAIRS", block)
    found = expected_sections(model)
    for name in ("LABS", "PLAN"):
        row, mixture = model.section_ids[name], section_mixture(model, name, most=None).mixture
        np.testing.assert_allclose(found.mean[row], mixture.mean, atol=1e-6)
        assert found.within[row] == pytest.approx(mixture.within, rel=1e-6)
        assert found.between[row] == pytest.approx(mixture.between, rel=1e-4)
        assert found.n_effective[row] == pytest.approx(mixture.n_effective)


def test_vectors_are_the_means(model: PretrainedModel) -> None:
    np.testing.assert_array_equal(expected_word_vectors(model), expected_words(model).mean)
    np.testing.assert_array_equal(expected_section_vectors(model), expected_sections(model).mean)
    assert expected_word_vectors(model).shape == (len(model.words), model.sizes.cell_dim)


def test_the_views_of_words_agree_on_their_expected_meaning(model: PretrainedModel) -> None:
    np.testing.assert_allclose(WordCells(model).expected.mean, expected_word_vectors(model), atol=1e-6)


def test_what_was_not_counted_has_null_metadata_or_nothing(model: PretrainedModel) -> None:
    bare = replace(model, statistics=model.statistics.at_least(1_000_000))
    words, sections = expected_words(bare), expected_sections(bare)
    assert isinstance(model.prior, NumpyModelNetwork)
    cells = model.prior(np.arange(len(model.words)), None)
    np.testing.assert_allclose(words.mean, cells.mean, rtol=1e-6)
    assert (words.n_counted == 0).all()
    assert (words.between == 0).all()
    assert not sections.mean.any()
    assert not sections.n_counted.any()


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_words_of_a_model_without_sections_are_their_own_gaussians(kind: str, tmp_path: Path) -> None:
    model = small_model(tmp_path, kind)
    found = expected_words(model)
    assert isinstance(model.prior, NumpyWordPrior)
    cells = model.prior(np.arange(len(model.words)))
    np.testing.assert_allclose(found.mean, cells.mean, rtol=1e-6)
    np.testing.assert_allclose(found.within, np.exp(cells.log_variance), rtol=1e-6)
    assert (found.n_effective == 1).all()
    with pytest.raises(InputError, match=f"kind '{kind}'"):
        expected_sections(model)
