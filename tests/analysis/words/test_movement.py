"""How far sections move cells, and whether all alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.planted import SECTIONS, WORDS
from expansion.clinic import clinic_corpus, random_model
from lmcells.analysis.cells import WordCells
from lmcells.analysis.senses import measure_movement


def test_where_words_and_sections_only_add_up_nothing_is_of_pairs(cells: WordCells) -> None:
    movement = measure_movement(cells)
    assert movement.of_pairs == pytest.approx(0, abs=1e-9)
    assert movement.of_sections > 0.01
    assert movement.of_words + movement.of_sections + movement.of_pairs == pytest.approx(1)
    assert (movement.n_words, movement.n_sections) == (len(WORDS), len(SECTIONS))


@given(seed=st.integers(0, 3))
def test_shares_of_the_movement_add_up_to_one(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("random")
    model = random_model(folder / "model", clinic_corpus(folder, n_notes=4), "lmc", seed=seed)
    movement = measure_movement(WordCells(model))
    shares = (movement.of_words, movement.of_sections, movement.of_pairs)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0  # the ReLU makes a section matter more to some words than to others
