"""One window under several sections, and the null context."""

import numpy as np

from expansion.clinic import INVENTORY
from lmcells.analysis.interpolation import cells, empty_window, read_window, section_ranker
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.windows import NULL
from lmcells.pretrained import PretrainedModel

TEXT = "warfarin, MG for the bleeding gait"


def test_the_learnt_weight_by_hand_is_the_learnt_weight(shipped_ranker: PosteriorRanker) -> None:
    window = read_window(shipped_ranker, "MG", text=TEXT)
    section = np.array([shipped_ranker.model.section_ids["MEDICATIONS"]])
    learnt = cells(shipped_ranker.model, window, section)
    by_hand = cells(shipped_ranker.model, window, section, gate=learnt.gate)
    np.testing.assert_allclose(by_hand.mean, learnt.mean, atol=1e-6)


def test_without_words_the_paper_ranking_reads_the_short_form_itself(small: PretrainedModel) -> None:
    ranker = section_ranker(small, INVENTORY)
    null = np.array([NULL])
    of_word = cells(small, read_window(ranker, "PT"), null)
    of_nothing = cells(small, empty_window(ranker), null)
    assert np.abs(of_word.mean - of_nothing.mean).max() > 1e-4
