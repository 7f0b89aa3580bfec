"""The cells of words are the model's, and their divergence is the one of the formula."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS
from lmcells.analysis.cells import WordCells, kl_divergence
from lmcells.analysis.names import NULL_SECTION
from lmcells.model import Gaussian
from lmcells.model import kl_divergence as kl_in_torch
from lmcells.pretrained import NumpyGaussian


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


def test_divergence_from_itself_is_zero(shipped_cells: WordCells) -> None:
    some = shipped_cells.of(np.arange(50), "PLAN")
    assert (kl_divergence(some, some) == 0).all()


def test_cells_are_the_planted_ones(cells: WordCells) -> None:
    under = cells.of(id_of(cells, "history"), "family history")
    np.testing.assert_allclose(under.mean[0], np.add(WORDS["history"], SECTIONS["FAMILY HISTORY"]), atol=1e-5)
    np.testing.assert_allclose(under.log_variance, LOG_VARIANCE, atol=1e-6)
    np.testing.assert_allclose(
        cells.of(id_of(cells, "history"), NULL_SECTION).mean[0], WORDS["history"], atol=1e-5
    )


def test_the_expected_cell_is_the_average_over_the_sections_of_a_word(cells: WordCells) -> None:
    average = (
        9 * np.array(SECTIONS["SOCIAL HISTORY"])
        + 6 * np.array(SECTIONS["FAMILY HISTORY"])
        + np.array(SECTIONS["LABORATORY DATA"])
    ) / 16
    expected = cells.of(id_of(cells, "history"), None)
    np.testing.assert_allclose(expected.mean[0], np.array(WORDS["history"]) + average, atol=1e-5)


def test_placeholders_are_no_neighbors(shipped_cells: WordCells) -> None:
    words = {shipped_cells.model.words[id_] for id_ in shipped_cells.frequent(1)}
    assert "history" in words
    assert "<digit>" not in words
