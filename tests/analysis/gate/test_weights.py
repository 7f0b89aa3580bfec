"""The gate: what is weighed, how it is summed up, what is checked, and what is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.short_note import NOTE
from lmcells.analysis.gate import WeighedExample, places_of_examples, spread, weigh, weigh_alone
from lmcells.evaluation.dataset import Example
from lmcells.expansion.explain import explain
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.reader import NoteReader


def example(text: str, short_form: str, section: str | None, number: int = 0) -> Example:
    start = text.index(short_form)
    return Example(
        f"e{number}", text, start, start + len(short_form), short_form, section, "multiple sclerosis", "n/1"
    )


def weighed(weight: float, section: str) -> WeighedExample:
    return WeighedExample("MS", "n/1", None, section, section, weight, 1, None, "", "")


def test_weights_of_a_note_are_those_that_explain_it(
    shipped_ranker: PosteriorRanker, of_note: list[WeighedExample]
) -> None:
    explained = explain(shipped_ranker, NoteReader(shipped_ranker.inventory)(NOTE))
    expected = [each.section_weight for each in explained if each is not None]
    assert [each.weight for each in of_note] == pytest.approx(expected, abs=1e-6)
    assert all(0.1 < weight < 0.9 for weight in expected)


def test_a_note_tells_the_length_of_its_sections(of_note: list[WeighedExample]) -> None:
    by_short_form = {each.short_form: each for each in of_note}
    assert by_short_form["LMA"].n_section_tokens == 1
    assert by_short_form["LMA"].n_words == 0
    history = by_short_form["CVA"].n_section_tokens
    assert history is not None
    assert history > 20
    assert (by_short_form["CVA"].section, by_short_form["MS"].section) == (
        "HISTORY OF PRESENT ILLNESS",
        "MEDICATIONS",
    )


def test_a_short_section_weighs_more_than_a_long_one(of_note: list[WeighedExample]) -> None:
    weight = {each.short_form: each.weight for each in of_note}
    assert weight["LMA"] > weight["CVA"]


def test_examples_of_a_dataset_keep_their_label_and_the_words_around_them(
    shipped_ranker: PosteriorRanker,
) -> None:
    text = "one two three four five six seven eight MS nine ten\neleven twelve thirteen fourteen fifteen"
    (found,) = weigh(shipped_ranker, places_of_examples([example(text, "MS", "past medical history")]))
    assert found.long_form == "multiple sclerosis"
    assert (found.section, found.read_as) == ("past medical history", "PAST MEDICAL HISTORY")
    assert found.before == "three four five six seven eight"
    assert found.after == "nine ten eleven twelve thirteen fourteen"
    assert found.n_section_tokens is None
    assert "seven" not in repr(found)


def test_words_cut_by_the_reach_are_left_out(shipped_ranker: PosteriorRanker) -> None:
    text = "abcdefghij" * 9 + " before MS after " + "klmnopqrst" * 9
    (found,) = weigh(shipped_ranker, places_of_examples([example(text, "MS", None)]))
    assert (found.before, found.after) == ("before", "after")
    assert found.read_as == "<no section>"


def test_sections_alone_weigh_what_the_gate_says_of_an_empty_text(shipped_ranker: PosteriorRanker) -> None:
    alone = {each.section: each.weight for each in weigh_alone(shipped_ranker)}
    (found,) = weigh(shipped_ranker, places_of_examples([example("MS", "MS", "MEDICATIONS")]))
    assert alone["MEDICATIONS"] == pytest.approx(found.weight, abs=1e-6)
    assert len(alone) > 100


@given(
    st.lists(st.tuples(st.floats(0.1, 0.9), st.sampled_from("ABC")), min_size=1, max_size=30),
    st.integers(0, 12),
)
def test_shown_examples_go_from_the_least_weight_to_the_most(rows: list[tuple[float, str]], n: int) -> None:
    examples = [weighed(weight, section) for weight, section in rows]
    shown = [each.weight for each in spread(examples, n=n)]
    assert shown == sorted(shown)
    assert len(shown) == min(n, len(examples))
    if n > 1:
        assert (shown[0], shown[-1]) == (min(rows)[0], max(rows)[0])


def test_shown_examples_are_of_different_sections() -> None:
    examples = [weighed(weight, "A") for weight in np.linspace(0.2, 0.8, 61)] + [weighed(0.51, "B")]
    assert {each.section for each in spread(examples, n=3)} == {"A", "B"}
