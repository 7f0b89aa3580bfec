"""Nearest words."""

import numpy as np
import pytest

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS
from lmcells.analysis.cells import WordCells
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.neighbors import nearest_words
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


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


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_models_without_sections_have_one_cell_a_word(
    kind: str, small_models: dict[str, PretrainedModel]
) -> None:
    model = small_models[kind]
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
    with pytest.raises(InputError, match="does not use sections"):
        nearest_words(cells, "gait", "PLAN")


@pytest.mark.parametrize(
    ("word", "near"), [("smoking", "cigarette"), ("cancer", "cancers"), ("culture", "cultures")]
)
def test_the_shipped_model_knows_words_that_are_alike(shipped_cells: WordCells, word: str, near: str) -> None:
    assert near in [
        each.word for each in nearest_words(shipped_cells, word, "PAST MEDICAL HISTORY").neighbors
    ]
