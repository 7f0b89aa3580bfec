"""Nearest words: the cells are the model's, the nearest are found, and quickly."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS, planted_model
from expansion.clinic import clinic_corpus, random_model
from lmcells.analysis.cells import NULL_SECTION, WordCells, kl_divergence
from lmcells.analysis.neighbors import nearest_words
from lmcells.errors import InputError
from lmcells.model import Gaussian
from lmcells.model import kl_divergence as kl_in_torch
from lmcells.pretrained import NumpyGaussian, PretrainedModel
from lmcells.pretrained.shipped import shipped_model
from timing import seconds_of


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> WordCells:
    return WordCells(planted_model(tmp_path_factory.mktemp("planted")))


@pytest.fixture(scope="module")
def shipped() -> WordCells:
    return WordCells(PretrainedModel.from_pretrained(shipped_model()))


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


def test_divergence_from_itself_is_zero(shipped: WordCells) -> None:
    some = shipped.of(np.arange(50), "PLAN")
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


@pytest.mark.parametrize(
    ("section", "nearest"),
    [("SOCIAL HISTORY", "alcohol"), ("FAMILY HISTORY", "father"), ("LABORATORY DATA", "potassium")],
)
def test_the_section_pulls_a_word_to_the_words_of_the_section(
    cells: WordCells, section: str, nearest: str
) -> None:
    found = nearest_words(cells, "history", section, against="expected", n=2)
    assert found.neighbors[0].word == nearest
    assert found.moved > 0
    assert found.section == section


def test_divergences_and_cosines_are_those_of_the_planted_vectors(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "SHX", n=6)
    own = np.add(WORDS["history"], SECTIONS["SHX"])
    for each in found.neighbors:
        other = np.add(WORDS[each.word], SECTIONS["SHX"])
        assert each.divergence == pytest.approx(
            0.5 * ((own - other) ** 2).sum() / np.exp(LOG_VARIANCE), rel=1e-4
        )
        assert each.cosine == pytest.approx(
            own @ other / np.linalg.norm(own) / np.linalg.norm(other), rel=1e-4
        )
    divergences = [each.divergence for each in found.neighbors]
    assert divergences == sorted(divergences)


def test_by_cosine_the_words_are_in_order_of_cosine(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "FAMILY HISTORY", measure="cosine", n=6)
    cosines = [each.cosine for each in found.neighbors]
    assert cosines == sorted(cosines, reverse=True)
    assert {each.word for each in found.neighbors} == WORDS.keys() - {"history"}


def test_counts_are_said(cells: WordCells) -> None:
    found = nearest_words(cells, "HISTORY", "family history")
    assert (found.word, found.section) == ("history", "FAMILY HISTORY")
    assert (found.count, found.count_in_section) == (16, 6)
    assert found.variance == pytest.approx(np.exp(LOG_VARIANCE), rel=1e-5)
    on_average = nearest_words(cells, "history")
    assert (on_average.section, on_average.count_in_section, on_average.moved) == (None, None, 0)


def test_rare_words_are_left_out(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "LABORATORY DATA", min_count=11)
    assert [each.word for each in found.neighbors] == ["sodium"]
    assert found.n_candidates == 1


@pytest.mark.parametrize("min_count", [16, 17])  # "history" itself was seen 16 times
def test_where_no_other_word_is_frequent_enough_it_says_so(cells: WordCells, min_count: int) -> None:
    with pytest.raises(InputError, match=f"no other word was seen at least {min_count} times"):
        nearest_words(cells, "history", min_count=min_count)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"word": "histry"}, "Nearest: history"),
        ({"section": "FAMLY HISTORY"}, "Nearest: FAMILY HISTORY"),
        ({"against": "sections"}, "allowed: section, expected. Nearest: 'section'"),
        ({"measure": "cosin"}, "allowed: divergence, cosine"),
        ({"n": 0}, "n is 0; allowed: 1 or more"),
    ],
)
def test_what_is_unknown_is_refused_with_what_is_near(
    cells: WordCells, wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        nearest_words(cells, **{"word": "history", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_models_without_sections_have_one_cell_a_word(kind: str, tmp_path: Path) -> None:
    model = random_model(tmp_path / "model", clinic_corpus(tmp_path), kind)
    cells = WordCells(model)
    found = nearest_words(cells, "gait")
    assert found.neighbors == nearest_words(cells, "gait", NULL_SECTION).neighbors
    every = model.prior(np.arange(len(model.words)))  # type: ignore[call-arg]
    here = model.word_ids["gait"]
    direct = 0.5 * (
        6 * (np.exp(every.log_variance[here] - every.log_variance) - 1)
        - 6 * (every.log_variance[here] - every.log_variance)
        + np.square(every.mean[here] - every.mean).sum(axis=1) / np.exp(every.log_variance)
    )
    direct[here] = np.inf
    assert found.neighbors[0].word == model.words[direct.argmin()]
    assert found.neighbors[0].divergence == pytest.approx(direct.min(), rel=1e-4)
    with pytest.raises(InputError, match="do not move with their section"):
        nearest_words(cells, "gait", "PLAN")


def test_placeholders_are_no_neighbors(shipped: WordCells) -> None:
    words = {shipped.model.words[id_] for id_ in shipped.frequent(1)}
    assert "history" in words
    assert "<digit>" not in words


@pytest.mark.parametrize(
    ("word", "near"), [("smoking", "cigarette"), ("cancer", "cancers"), ("culture", "cultures")]
)
def test_the_shipped_model_knows_words_that_are_alike(shipped: WordCells, word: str, near: str) -> None:
    assert near in [each.word for each in nearest_words(shipped, word, "PAST MEDICAL HISTORY").neighbors]


def test_all_words_of_the_shipped_model_are_searched_in_a_tenth_of_a_second(shipped: WordCells) -> None:
    assert len(shipped.frequent(1)) > 38_000
    shipped.expected  # noqa: B018 - computed once
    assert (
        seconds_of(lambda: nearest_words(shipped, "history", "SOCIAL HISTORY", min_count=1), rounds=5) < 0.1
    )
