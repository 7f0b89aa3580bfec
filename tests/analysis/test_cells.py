"""Cells of words, the moments of all mixtures at once, and files of vectors, of which gensim reads back every bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS
from lmcells.analysis.cells import (
    NamedVectors,
    WordCells,
    expected_sections,
    expected_word_vectors,
    expected_words,
    kl_divergence,
    section_vectors,
    unique_names,
    word_vectors,
    write_vectors,
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


ENDINGS = pytest.mark.parametrize("ending", [".txt", ".vec", ".bin"])


SPACES = ("PAST MEDICAL HISTORY", "a b", "a_b", "", "x\ty", "x\u00a0y", "x\u2028y")
HOSTILE = (*SPACES, "naïve", "心臓", '"', "<no section>")


def hostile() -> NamedVectors:
    random = np.random.default_rng(0)
    shape = (len(HOSTILE), 7)
    vectors = (10.0 ** random.uniform(-30, 30, shape) * random.normal(size=shape)).astype(np.float32)
    skipped = np.frombuffer(b"\n \n ", np.float32)[0]  # bytes that a careless reader would skip
    vectors[0, :3] = (0, -0.0, skipped)
    return unique_names(HOSTILE), vectors


@ENDINGS
def test_gensim_reads_every_name_and_every_bit(ending: str, tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models", reason="gensim is not installed").KeyedVectors
    names, vectors = hostile()
    path = tmp_path / f"vectors{ending}"
    write_vectors(path, (names, vectors))
    found = keyed.load_word2vec_format(str(path), binary=ending == ".bin")
    assert tuple(found.index_to_key) == names
    np.testing.assert_array_equal(found.vectors, vectors)
    assert found.vectors.dtype == np.float32


@ENDINGS
def test_gensim_finds_the_expected_meanings_of_a_model(
    model: PretrainedModel, ending: str, tmp_path: Path
) -> None:
    keyed = pytest.importorskip("gensim.models", reason="gensim is not installed").KeyedVectors
    for vectors, expected, names in (
        (word_vectors(model), expected_word_vectors(model), model.words),
        (section_vectors(model), expected_sections(model).mean[1:], model.sections[1:]),
    ):
        path = tmp_path / f"{len(names)}{ending}"
        write_vectors(path, vectors)
        found = keyed.load_word2vec_format(str(path), binary=ending == ".bin")
        assert found.index_to_key == names
        np.testing.assert_array_equal(found.vectors, expected.astype(np.float32))
    assert found.similarity("LABS", "PLAN") == pytest.approx(
        expected[0] @ expected[1] / np.linalg.norm(expected[0]) / np.linalg.norm(expected[1]), rel=1e-5
    )


def test_a_section_without_counted_words_is_left_out(model: PretrainedModel) -> None:
    names, _ = section_vectors(model)
    assert model.sections == ["<no section>", *names]


def test_the_text_is_a_header_and_a_line_a_name(tmp_path: Path) -> None:
    vectors = np.array([[1, 0.1], [-2.5, 1e-9]], np.float32)
    write_vectors(tmp_path / "v.txt", (("a", "b_c"), vectors))
    expected = ["2 2", "a 1 0.100000001", "b_c -2.5 9.99999972e-10"]
    assert (tmp_path / "v.txt").read_text().splitlines() == expected


def test_spaces_become_underscores_and_what_then_is_the_same_gets_a_number() -> None:
    assert unique_names(["A B", "A_B", "A\tB", "C"]) == ("A_B", "A_B_2", "A_B_3", "C")
    assert unique_names(["A B", "A_B", "A_B_2"]) == ("A_B", "A_B_3", "A_B_2")
    assert unique_names(["", " "]) == ("_", "__2")


@given(st.lists(st.text(alphabet=" _\tAB2\u2003", max_size=4), max_size=12))
def test_names_stay_as_many_and_in_order_and_hold_no_space(names: list[str]) -> None:
    unique = unique_names(names)
    assert len(unique) == len(names) == len(set(unique))
    assert all(name.split() == [name] for name in unique)
    for name, given_name in zip(unique, names, strict=True):
        assert name.startswith("".join("_" if letter.isspace() else letter for letter in given_name))


def test_a_folder_that_is_not_there_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_vectors(tmp_path / "none" / "v.txt", hostile())
    assert list(tmp_path.iterdir()) == []
