"""Cells of words, and the moments of all mixtures at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS
from lmcells.analysis.cells import (
    WordCells,
    expected_sections,
    expected_word_vectors,
    expected_words,
    kl_divergence,
)
from lmcells.analysis.mixtures import section_mixture, word_mixture
from lmcells.analysis.names import NULL_SECTION
from lmcells.errors import InputError
from lmcells.model import Gaussian
from lmcells.model import kl_divergence as kl_in_torch
from lmcells.pretrained import NumpyGaussian, NumpyModelNetwork, NumpyWordPrior, PretrainedModel


def id_of(cells: WordCells, word: str) -> np.ndarray:
    return np.array([cells.model.word_ids[word]])


NUMBERS = st.floats(-3, 3, width=32)
MEANS = arrays.arrays(np.float32, (3, 5), elements=NUMBERS)
LOG_VARIANCES = arrays.arrays(np.float32, (3,), elements=NUMBERS)


@given(MEANS, LOG_VARIANCES, MEANS, LOG_VARIANCES)
def test_divergence_is_the_one_of_torch_and_of_the_formula(
    mean: np.ndarray, log_variance: np.ndarray, other_mean: np.ndarray, other_log_variance: np.ndarray
) -> None:
    found = kl_divergence(NumpyGaussian(mean, log_variance), NumpyGaussian(other_mean, other_log_variance))
    expected = kl_in_torch(
        Gaussian(torch.from_numpy(mean), torch.from_numpy(log_variance)),
        Gaussian(torch.from_numpy(other_mean), torch.from_numpy(other_log_variance)),
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
    q, p = (
        torch.distributions.Normal(
            torch.from_numpy(m).double(), torch.from_numpy(v).double().mul(0.5).exp()[:, None]
        )
        for m, v in ((mean, log_variance), (other_mean, other_log_variance))
    )
    by_dimension = torch.distributions.kl_divergence(q, p).sum(dim=1)
    np.testing.assert_allclose(found, by_dimension.numpy(), rtol=1e-4, atol=1e-5)


def test_cells_are_the_planted_ones(cells: WordCells) -> None:
    under = cells.of(id_of(cells, "history"), "family history")
    np.testing.assert_allclose(under.mean[0], np.add(WORDS["history"], SECTIONS["FAMILY HISTORY"]), atol=1e-5)
    np.testing.assert_allclose(under.log_variance, LOG_VARIANCE, atol=1e-6)
    np.testing.assert_allclose(
        cells.of(id_of(cells, "history"), NULL_SECTION).mean[0], WORDS["history"], atol=1e-5
    )


def test_the_expected_cell_is_the_average_over_the_sections_of_a_word(cells: WordCells) -> None:
    seen = {"SOCIAL HISTORY": 9, "FAMILY HISTORY": 6, "LABORATORY DATA": 1}
    average = sum(n * np.array(SECTIONS[name]) for name, n in seen.items()) / 16
    expected = cells.of(id_of(cells, "history"), None)
    np.testing.assert_allclose(expected.mean[0], np.array(WORDS["history"]) + average, atol=1e-5)


def test_placeholders_are_no_neighbors(shipped_cells: WordCells) -> None:
    words = {shipped_cells.model.words[id_] for id_ in shipped_cells.frequent(1)}
    assert "history" in words
    assert "<digit>" not in words


@pytest.mark.parametrize("block", [3, 1 << 14])
def test_every_word_and_section_has_the_moments_of_its_mixture(
    model: PretrainedModel, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("lmcells.analysis.cells._MAX_PAIRS", block)
    of_words, of_sections = expected_words(model), expected_sections(model)
    cases = [(of_words, id_, word_mixture(model, word)) for word, id_ in model.word_ids.items()]
    cases += [
        (of_sections, model.section_ids[name], section_mixture(model, name, most=None))
        for name in ("LABS", "PLAN")
    ]
    for found, row, marginal in cases:
        mixture = marginal.mixture
        np.testing.assert_allclose(found.mean[row], mixture.mean, atol=1e-6)
        assert found.within[row] == pytest.approx(mixture.within, rel=1e-6)
        assert found.between[row] == pytest.approx(mixture.between, rel=1e-4, abs=1e-8)
        assert found.n_effective[row] == pytest.approx(mixture.n_effective)
        assert found.n_counted[row] == marginal.n_counted


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
def test_words_of_a_model_without_sections_are_their_own_gaussians(
    kind: str, small_models: dict[str, PretrainedModel]
) -> None:
    model = small_models[kind]
    found = expected_words(model)
    assert isinstance(model.prior, NumpyWordPrior)
    cells = model.prior(np.arange(len(model.words)))
    np.testing.assert_allclose(found.mean, cells.mean, rtol=1e-6)
    np.testing.assert_allclose(found.within, np.exp(cells.log_variance), rtol=1e-6)
    assert (found.n_effective == 1).all()
    with pytest.raises(InputError, match=f"kind '{kind}'"):
        expected_sections(model)
