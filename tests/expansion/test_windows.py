"""Windows by array operations, against the definition that takes one token after another."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmcells.expansion.windows import Mention, WindowReader, tokens_around
from lmcells.notes.tokens import spell
from lmcells.pretrained.subwords import Subwords, SubwordSettings

PIECES = st.sampled_from(
    [
        *(
            "pain ",
            "Pain ",
            "the ",
            "gait\n",
            "PT ",
            "pt, ",
            "PTs ",
            "500mg ",
            "p.o. ",
            "rare ",
            "Rarely ",
            "x-ray",
            ". ",
        ),
        *("[** a", "**] ", "_%#x ", "#%_", "___ ", "é ", "OR ", "s/p "),
    ]
)
WORD_IDS = {
    "pain": 0,
    "gait": 1,
    "pt": 2,
    "<digit>": 3,
    "po": 4,
    "x-ray": 5,
    "or": 6,
    "mg": 7,
    "s/p": 8,
    "the": 9,
}


@st.composite
def mentions(draw: st.DrawFn) -> Mention:
    before, after = ("".join(draw(st.lists(PIECES, max_size=14))) for _ in range(2))
    short_form = draw(st.sampled_from(["PT", "MS", "s/p"]))
    inside = draw(st.sampled_from([short_form, short_form + "s"]))
    text = f"{before} {inside} {after}"
    start = len(before) + 1
    return Mention(text, start, start + len(inside), short_form, None)


@given(st.lists(mentions(), min_size=1, max_size=5), st.integers(1, 6), st.booleans())
@example([Mention("_%#a PT", 5, 7, "PT", None), Mention("b#%_ PT pain", 5, 7, "PT", None)], 3, False)
@example([Mention("pain PT [** a", 5, 7, "PT", None), Mention("b **] PT pain", 6, 8, "PT", None)], 3, False)
def test_windows_are_those_of_one_token_after_another(
    given_mentions: list[Mention], radius: int, stop_words: bool
) -> None:
    found = WindowReader(WORD_IDS, radius=radius, stop_words=stop_words)(given_mentions)
    for row, mention in enumerate(given_mentions):
        left, right = tokens_around(mention, words=WORD_IDS, radius=radius, stop_words=stop_words)
        expected = [-1] * (radius - len(left)) + [WORD_IDS[token.word] for token in left + right]
        expected += [-1] * (2 * radius - len(expected))
        assert np.where(found.context_mask[row], found.context[row], -1).tolist() == expected
        assert found.center_mask[row] == (spell(mention.short_form) in WORD_IDS)


def test_mentions_of_one_text_share_its_tokens_and_texts_do_not_touch() -> None:
    text = "pain PT gait PT pain"
    first, second = (Mention(text, start, start + 2, "PT", None) for start in (5, 13))
    other = Mention("PT OR", 0, 2, "PT", None)
    found = WindowReader(WORD_IDS, radius=2)([first, other, second])
    assert found.context[found.context_mask].tolist() == [0, 1, 2, 6, 2, 1, 0]
    assert found.context_mask.sum(axis=1).tolist() == [3, 1, 3]


@pytest.mark.parametrize(("stop_words", "expected"), [(False, ["pain", "gait"]), (True, ["the", "gait"])])
def test_stop_words_are_read_where_the_model_was_trained_with_them(
    stop_words: bool, expected: list[str]
) -> None:
    read = WindowReader(WORD_IDS, radius=1, stop_words=stop_words)
    found = read([Mention("pain in the PT gait", 12, 14, "PT", None)])
    assert found.context.tolist() == [[WORD_IDS[word] for word in expected]]


@pytest.mark.parametrize("mask_id", [None, 99])
def test_a_hidden_center_leaves_a_mark_where_it_is_wanted(mask_id: int | None) -> None:
    read = WindowReader(WORD_IDS, radius=1, hides_center=True, mask_id=mask_id)
    found = read([Mention("pain PT gait", 5, 7, "PT", None)])
    assert not found.center_mask.any()
    assert found.context.tolist() == [[0, 1]] if mask_id is None else [[0, 99, 1]]
    assert found.context_mask.all()


@pytest.mark.parametrize("mask_id", [None, 99])
def test_texts_without_a_token_have_windows_without_words(mask_id: int | None) -> None:
    read = WindowReader(WORD_IDS, radius=2, mask_id=mask_id)
    empty = [Mention("&", 0, 1, "&", None), Mention("", 0, 0, "PT", None)]
    for found in (read(empty[:1]), read(empty)):
        assert not np.delete(found.context_mask, 2, axis=1).any()
        assert (np.where(found.context_mask, found.context, 99) == 99).all()
    beside = read([*empty, Mention("pain PT gait", 5, 7, "PT", None)])
    assert beside.context_mask.sum(axis=1).tolist() == ([0, 0, 2] if mask_id is None else [1, 1, 3])


def test_an_empty_vocabulary_reads_nothing() -> None:
    found = WindowReader({}, radius=2)([Mention("pain PT gait", 5, 7, "PT", None)])
    assert not found.context_mask.any()


TABLE = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)


class Readable:
    """Known words, and those with sub-words."""

    def __contains__(self, word: object) -> bool:
        return word in WORD_IDS or word in SUBWORDS


READABLE = Readable()
SUBWORDS = Subwords(list(WORD_IDS), TABLE, np.ones(len(WORD_IDS), np.int64), SubwordSettings(2.0, 1.0, 0.1))


@given(st.lists(mentions(), min_size=1, max_size=5), st.integers(1, 6))
def test_unknown_words_stand_in_windows_by_their_vectors(given_mentions: list[Mention], radius: int) -> None:
    read = WindowReader(WORD_IDS, radius=radius, subwords=SUBWORDS)
    found = read(given_mentions)
    assert found.unknown is not None
    vectors = np.concatenate([TABLE, found.unknown])
    for row, mention in enumerate(given_mentions):
        left, right = tokens_around(mention, words=READABLE, radius=radius)
        expected = [
            TABLE[WORD_IDS[word]] if word in WORD_IDS else SUBWORDS.vectors([word])[0]
            for word in (token.word for token in left + right)
        ]
        present = found.context[row][found.context_mask[row]]
        np.testing.assert_array_equal(vectors[present], np.array(expected).reshape(-1, 4))


def test_the_same_unknown_word_has_one_vector_in_a_batch() -> None:
    read = WindowReader(WORD_IDS, radius=2, subwords=SUBWORDS)
    text = "rarely PT rare, 1234 zz"
    found = read([Mention(text, 7, 9, "PT", None), Mention("Rarely PT", 7, 9, "PT", None)])
    assert found.unknown is not None
    assert found.unknown.shape == (2, 4)
    context = found.context[found.context_mask].tolist()
    assert len(context) == 4  # a number is known, and two letters are not read
    assert context[0] == context[-1] >= len(TABLE)
