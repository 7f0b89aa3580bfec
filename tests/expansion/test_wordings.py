"""Long forms as they would stand in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.expansion.long_forms import remains, with_plurals, wordings


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (["out-patient", "outpatient"], [("outpatient",)]),  # "patient" alone is another word
        (["out patient"], []),
        (["culture and sensitivity"], [("culture", "sensitivity")]),  # dropped inside, as in a corpus
        (["alzheimer s disease"], [("alzheimer", "disease")]),
        (["Alzheimer's disease"], [("alzheimer", "disease")]),
        (["protein C", "Protein c"], [("protein", "c")]),
        (["the"], []),
    ],
)
def test_forms_become_the_tokens_of_a_corpus(forms: list[str], expected: list[tuple[str, ...]]) -> None:
    assert wordings(forms, stop_words=False) == expected


def test_what_is_left_of_a_form_can_still_be_read() -> None:
    assert remains(["out patient", "the"], stop_words=False) == [("patient",)]


def test_with_stop_words_every_form_is_whole() -> None:
    forms = ["out-patient", "culture and sensitivity", "as needed"]
    assert wordings(forms, stop_words=True) == [
        ("out", "patient"),
        ("culture", "and", "sensitivity"),
        ("as", "needed"),
    ]
    assert remains(["the"], stop_words=True) == [("the",)]


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("receptor", "receptors"),
        ("receptors", "receptor"),
        ("biopsy", "biopsies"),
        ("biopsies", "biopsy"),
        ("mass", "masses"),
    ],
)
def test_the_other_number_of_the_last_word_is_added(word: str, other: str) -> None:
    assert ("one", other) in with_plurals([("one", word)])


@given(st.lists(st.lists(st.text("abcys", min_size=1), min_size=1).map(tuple)))
def test_what_was_given_comes_first_and_nothing_twice(given_wordings: list[tuple[str, ...]]) -> None:
    distinct = list(dict.fromkeys(given_wordings))
    found = with_plurals(given_wordings)
    assert found[: len(distinct)] == distinct
    assert len(set(found)) == len(found)
