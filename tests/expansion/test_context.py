"""What a model reads of a short form: the windows of the corpus, from a text."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus_of, windows_around
from expansion.clinic import mention
from lmcells.expansion.windows import Mention, WindowReader, tokens_around, window_text

WORDS = ["pain", "Pain", "pain", "the", "of", "IS", "gait", "PT", "pt", "500mg", "p.o.", "rare", "x-ray", "."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [2, 10])
def test_windows_are_those_of_the_corpus(folder: Path, seed: int, radius: int) -> None:
    draw = np.random.default_rng(seed)
    text = " ".join([*draw.choice(WORDS, 40), "MS", *draw.choice(WORDS, 40), "pain gait"])
    corpus = corpus_of(folder, [text, "MS pt pain"], min_count=1)  # "rare" and others may fall out
    word_ids = {word: id_ for id_, word in enumerate(corpus.words)}
    place = int(corpus.occurrences_of(word_ids["ms"])[0])
    expected = windows_around(
        np.array([place]), tokens=corpus.tokens, token_segment=corpus.token_segment, radius=radius
    )
    found = WindowReader(word_ids, radius=radius)([mention(text, "MS")])
    np.testing.assert_array_equal(found.context_mask, expected.mask)
    np.testing.assert_array_equal(found.context[found.context_mask], expected.context[expected.mask])
    assert found.center.tolist() == [word_ids["ms"]]
    assert found.center_mask.tolist() == [True]


def test_a_short_form_that_is_no_word_of_the_model_is_a_masked_center() -> None:
    found = WindowReader({"gait": 0, "stairs": 1}, radius=2)([mention("gait PT stairs")])
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
    assert window_text(mention(text), radius=2) == "slow gait; PT for the stairs & balance"


def test_the_text_of_a_window_spans_as_many_known_words() -> None:
    text = "walking with unheard gait PT unheard words on stairs daily"
    known = {"walking", "gait", "stairs", "daily"}
    assert window_text(mention(text), words=known, radius=1) == "gait PT unheard words on stairs"


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_text_of_a_window_always_holds_the_mention(before: str, after: str) -> None:
    text = f"{before} PT {after}"
    start = len(before) + 1
    assert "PT" in window_text(Mention(text, start, start + 2, "PT", None), radius=3)


def test_a_mention_does_not_show_its_text() -> None:
    assert "secret" not in repr(mention("secret PT"))
