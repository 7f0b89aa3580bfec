"""Vectors in word2vec's formats: gensim reads back every bit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.analysis.cells import expected_sections, expected_word_vectors
from lmcells.analysis.vectors import NamedVectors, section_vectors, unique_names, word_vectors, write_vectors
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel

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
