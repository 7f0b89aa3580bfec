"""What a model reads of a short form: windows as the corpus has them, cut from the tokens of a note."""

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora import corpus_of, windows_around
from expansion.clinic import mention as mention_in
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import Mention, WindowReader
from lmcells.notes.tokens import Token, iterate_tokens, spell
from lmcells.pretrained import ReadWindows
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
WORD_IDS = {word: id_ for id_, word in enumerate("pain gait pt <digit> po x-ray or mg s/p the".split())}


def tokens_around(
    mention: Mention, *, words: Container[str] | None = None, radius: int = 10, stop_words: bool = False
) -> tuple[list[Token], list[Token]]:
    """Return up to `radius` tokens of `words` on either side; a repeated word counts once."""
    left: list[Token] = []
    right: list[Token] = []
    side, previous = left, ""
    center = spell(mention.short_form)
    nearest = None
    for token in iterate_tokens(mention.text, stop_words=stop_words):
        if token.end <= mention.start:
            nearest = token
        if token.start >= mention.end and side is left:
            side, previous = right, center
        if (
            token.word != previous
            and (token.end <= mention.start or side is right)
            and (words is None or token.word in words)
        ):
            side.append(token)
            if len(right) == radius:
                break
        previous = token.word
    if left and left[-1] is nearest and nearest.word == center:
        left.pop()  # "PT PT": the corpus keeps only one, the center
    return left[-radius:], right


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
    read_any = WindowReader(None, radius=radius, stop_words=stop_words)
    for row, mention in enumerate(given_mentions):
        left, right = tokens_around(mention, words=WORD_IDS, radius=radius, stop_words=stop_words)
        expected = [-1] * (radius - len(left)) + [WORD_IDS[token.word] for token in left + right]
        expected += [-1] * (2 * radius - len(expected))
        assert np.where(found.context_mask[row], found.context[row], -1).tolist() == expected
        assert found.center_mask[row] == (spell(mention.short_form) in WORD_IDS)
        of_any = tokens_around(mention, radius=radius, stop_words=stop_words)
        assert read_any.words_read([mention]) == [of_any]


def as_read(windows: ReadWindows) -> list[list[object]]:
    return [list(map(tuple, np.where(windows.context_mask, windows.context, -1))), windows.center.tolist()]


WORDS = st.sampled_from(
    ["pain ", "pain, ", "Pain ", "the ", "gait\n", "PT ", "MS. ", "500mg ", "12 ", "p.o. ", "rare "]
)
READ_NOTE = NoteReader(
    SenseInventory.from_senses([Sense("PT", "physical therapy"), Sense("MS", "morphine sulfate")])
)


@given(st.lists(WORDS, max_size=40), st.lists(WORDS, max_size=40), st.integers(1, 6), st.booleans())
@example(
    ["pain ", *["12 "] * 9, "PT ", *["12 "] * 9, "MS "], [], 3, False
)  # a cut between two of the same word
def test_windows_from_the_tokens_of_a_note_are_those_of_the_mentions_own_texts(
    plan: list[str], labs: list[str], radius: int, stop_words: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmcells.expansion.reader._REACH", 20)  # so that sections are cut
        found = READ_NOTE(f"PLAN: plan {''.join(plan)}\n\nLABS: {''.join(labs)}")
    mentions = [each.mention for each in found if each.mention is not None]
    read = WindowReader(WORD_IDS | {"plan": 10}, radius=radius, stop_words=stop_words)
    alone = [replace(each, note=None, offset=0) for each in mentions]
    assert as_read(read(mentions)) == as_read(read(alone))
    for mention, sides in zip(mentions, read.words_read(mentions), strict=True):
        expected = tokens_around(mention, words=WORD_IDS | {"plan": 10}, radius=radius, stop_words=stop_words)
        assert sides == expected


def test_mentions_of_one_text_share_its_tokens_and_texts_do_not_touch() -> None:
    text = "pain PT gait PT pain"
    first, second = (Mention(text, start, start + 2, "PT", None) for start in (5, 13))
    other = Mention("PT x OR", 0, 2, "PT", None)
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


CORPUS_WORDS = "pain Pain pain the of IS gait PT pt 500mg p.o. rare x-ray .".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [2, 10])
def test_windows_are_those_of_the_corpus(folder: Path, seed: int, radius: int) -> None:
    draw = np.random.default_rng(seed)
    text = " ".join([*draw.choice(CORPUS_WORDS, 40), "MS", *draw.choice(CORPUS_WORDS, 40), "pain gait"])
    corpus = corpus_of(folder, [text, "MS pt pain"], min_count=1)  # "rare" and others may fall out
    word_ids = {word: id_ for id_, word in enumerate(corpus.words)}
    place = int(corpus.occurrences_of(word_ids["ms"])[0])
    expected = windows_around(
        np.array([place]), tokens=corpus.tokens, token_segment=corpus.token_segment, radius=radius
    )
    found = WindowReader(word_ids, radius=radius)([mention_in(text, "MS")])
    np.testing.assert_array_equal(found.context_mask, expected.mask)
    np.testing.assert_array_equal(found.context[found.context_mask], expected.context[expected.mask])
    assert found.center.tolist() == [word_ids["ms"]]
    assert found.center_mask.tolist() == [True]


def test_a_short_form_that_is_no_word_of_the_model_is_a_masked_center() -> None:
    found = WindowReader({"gait": 0, "stairs": 1}, radius=2)([mention_in("gait PT stairs")])
    assert found.center_mask.tolist() == [False]
    assert found.context.tolist() == [[0, 0, 1, 0]]
    assert found.context_mask.tolist() == [[False, True, True, False]]


@pytest.mark.parametrize(
    ("text", "start", "left", "right"),
    [
        ("gait PT PT stairs", 5, ["gait"], ["stairs"]),
        ("gait PT PT stairs", 8, ["gait"], ["stairs"]),
        ("gait PT gait PT stairs", 13, ["gait", "pt", "gait"], ["stairs"]),
        ("gait gait PT and gait", 10, ["gait"], ["gait"]),
        ("PT", 0, [], []),
    ],
)
def test_a_word_right_after_itself_counts_once_also_across_the_center(
    text: str, start: int, left: list[str], right: list[str]
) -> None:
    found = tokens_around(Mention(text, start, start + 2, "PT", None))
    assert [[token.word for token in side] for side in found] == [left, right]


def test_no_mentions_are_no_windows() -> None:
    assert WindowReader({"gait": 0}, radius=10)([]).context.shape == (0, 20)


def test_the_text_of_a_window_is_as_written() -> None:
    text = "He has had, since May, a slow gait; PT for the stairs & balance (500 mg). Then more."
    assert WindowReader(None, radius=2).text_of(mention_in(text)) == "slow gait; PT for the stairs & balance"


def test_the_text_of_a_window_spans_as_many_known_words() -> None:
    text = "walking with unheard gait PT unheard words on stairs daily"
    known = dict.fromkeys(["walking", "gait", "stairs", "daily"], 0)
    assert WindowReader(known, radius=1).text_of(mention_in(text)) == "gait PT unheard words on stairs"


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_text_of_a_window_always_holds_the_mention(before: str, after: str) -> None:
    text = f"{before} PT {after}"
    start = len(before) + 1
    assert "PT" in WindowReader(None, radius=3).text_of(Mention(text, start, start + 2, "PT", None))


def test_a_mention_does_not_show_its_text() -> None:
    assert "secret" not in repr(mention_in("secret PT"))
