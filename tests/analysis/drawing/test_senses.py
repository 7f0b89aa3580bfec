"""The table of senses in colour."""

import pytest

from analysis.drawn import drawn_texts
from lmcells.analysis.cells import WordCells
from lmcells.analysis.figure_labels import overlapping
from lmcells.analysis.senses import word_senses


def test_no_two_numbers_or_names_in_the_figure_overlap(shipped_cells: WordCells) -> None:
    from lmcells.analysis.figures import draw_senses

    senses = word_senses(
        shipped_cells, "history", sections=["SOCIAL HISTORY", "FAMILY HISTORY", "MEDICATIONS"]
    )
    texts, boxes = drawn_texts(draw_senses(senses))
    assert len(texts) > 2 * 3 * 12  # two numbers a cell
    assert overlapping(boxes) == []
    assert {"SOCIAL HISTORY", "FAMILY HISTORY", "MEDICATIONS", "average"} <= set(texts)


@pytest.mark.parametrize("n_words", [1, 30])
def test_figures_of_few_or_many_words_can_be_drawn(shipped_cells: WordCells, n_words: int) -> None:
    from lmcells.analysis.figures import draw_senses

    texts, boxes = drawn_texts(draw_senses(word_senses(shipped_cells, "cold", n_words=n_words, n_sections=1)))
    assert len(texts) > n_words
    assert overlapping(boxes) == []
