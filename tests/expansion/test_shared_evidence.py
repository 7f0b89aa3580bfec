"""Mentions of a short form in a note share what they know."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lmcells.expansion.ranking import MOST, SHARE, share, share_within_notes
from lmcells.expansion.reader import Occurrence
from lmcells.expansion.windows import Mention

SCORES = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.one_of(st.floats(-30, 30), st.just(-np.inf)),
)


def place(short_form: str, *, is_mention: bool = True) -> Occurrence:
    mention = Mention("x", 0, 1, short_form, None) if is_mention else None
    return Occurrence(0, 1, short_form, None, None, mention)


def test_a_doubtful_mention_follows_a_clear_one() -> None:
    doubtful, clear = share([np.array([1.0, 1.2]), np.array([9.0, 1.0])])
    assert doubtful.argmax() == 0
    assert clear.argmax() == 0
    assert clear.max() == 9.0 - SHARE * 0.2  # the other had it second


def test_a_mention_that_is_sure_of_another_meaning_keeps_it() -> None:
    adjusted = share([np.array([9.0, 0.0]), np.array([0.0, 9.0])])
    assert adjusted.argmax(axis=1).tolist() == [0, 1]


@given(SCORES)
def test_no_more_than_its_share_is_taken_and_nothing_is_given(scores: np.ndarray) -> None:
    adjusted = share(list(scores))
    known = np.isfinite(scores)
    assert (np.isfinite(adjusted) == known).all()
    taken = scores[known] - adjusted[known]
    assert (taken >= 0).all()
    assert (taken <= SHARE * MOST + 1e-9).all()
    if len(scores) == 1:
        np.testing.assert_array_equal(adjusted, scores)


def test_only_mentions_of_one_short_form_in_one_note_share() -> None:
    notes = [
        [place("PT"), place("MS"), place("PT", is_mention=False), place("PT")],
        [place("PT")],
        [],
        [place("PT")],
    ]
    scores = [np.array(each) for each in ([1.0, 0.0], [0.0, 1.0], [0.0, 6.0], [3.0, 0.0], [0.0, 3.0])]
    adjusted = share_within_notes(notes, scores)
    expected = share([scores[0], scores[2]])
    np.testing.assert_array_equal(adjusted[0], expected[0])
    np.testing.assert_array_equal(adjusted[2], expected[1])
    for alone in (1, 3, 4):
        assert adjusted[alone] is scores[alone]
