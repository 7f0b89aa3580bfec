"""Reviewing an inventory: which entries are taken for the same, and which are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.inventory_check import (
    GENERIC_WORD,
    REPEATED_FORM,
    SAME_SHORT_FORM,
    SAME_WORDS,
    SHARED_FORM,
    SPELLING,
    Finding,
    content_stems,
    find_near_duplicates,
    find_repeated_forms,
    find_same_short_forms,
    review_inventory,
    stem,
    within_edits,
)

WORDS = st.text("abcde ", max_size=8)


def reference_distance(first: str, second: str) -> int:
    """Levenshtein's distance as it is defined."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        reference_distance(first[1:], second) + 1,
        reference_distance(first, second[1:]) + 1,
        reference_distance(first[1:], second[1:]) + (first[0] != second[0]),
    )


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        (Sense("PT", "physical therapy"), Sense("PT", "therapy", ("Physical  therapy",)), SHARED_FORM),
        (Sense("BB", "beta-blocker"), Sense("BB", "beta blocker"), SHARED_FORM),
        (Sense("IVF", "intravenous fluid"), Sense("IVF", "intravenous fluids"), SAME_WORDS),
        (Sense("COC", "cancer of the colon"), Sense("COC", "colon cancer"), SAME_WORDS),
        (Sense("CD", "Crohn's disease"), Sense("CD", "Crohn"), GENERIC_WORD),
        (Sense("RF", "renal function"), Sense("RF", "renal function tests"), GENERIC_WORD),
        (Sense("CD", "celiac disease"), Sense("CD", "celiac syndrome"), GENERIC_WORD),
        (Sense("OE", "oedema"), Sense("OE", "edema"), SPELLING),
        (Sense("HT", "hypertension"), Sense("HT", "hypotension"), SPELLING),
    ],
)
def test_senses_that_may_be_one_are_found_with_the_rule(first: Sense, second: Sense, rule: str) -> None:
    assert [found.rule for found in find_near_duplicates([first, second])] == [rule]
    assert [found.rule for found in find_near_duplicates([second, first])] == [rule]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("physical therapy", "prothrombin time"),
        ("congestive heart failure", "heart failure"),
        ("celiac disease", "Crohn's disease"),
        ("disease", "syndrome"),
        ("hepatitis A virus", "hepatitis B immune globulin"),
        ("stage 1", "phase 2"),
    ],
)
def test_different_senses_are_left_alone(first: str, second: str) -> None:
    assert not list(find_near_duplicates([Sense("XX", first), Sense("XX", second)]))


def test_only_senses_of_one_short_form_are_compared() -> None:
    inventory = SenseInventory.from_senses(
        [Sense("ECG", "electrocardiogram"), Sense("EKG", "electrocardiogram")]
    )
    assert review_inventory(inventory) == []


def test_every_pair_of_senses_is_looked_at() -> None:
    senses = [Sense("XX", name) for name in ("liver test", "something else", "liver", "liver disease")]
    assert [(found.first, found.second) for found in find_near_duplicates(senses)] == [
        ("liver test", "liver"),
        ("liver test", "liver disease"),
        ("liver", "liver disease"),
    ]


def test_short_forms_that_differ_in_case_or_dots_are_found() -> None:
    found = list(find_same_short_forms(["PO", "p.o.", "PT", "pt", "PTT"]))
    assert found == [
        Finding("p.o.", "PO", "p.o.", SAME_SHORT_FORM),
        Finding("pt", "PT", "pt", SAME_SHORT_FORM),
    ]


def test_a_form_that_is_given_twice_in_another_case_is_found() -> None:
    sense = Sense("LR", "lactated Ringer's", ("lactated Ringer's", "Lactated ringer's", "Ringer's lactate"))
    assert list(find_repeated_forms(sense)) == [
        Finding("LR", "lactated Ringer's", "Lactated ringer's", REPEATED_FORM)
    ]


def test_a_review_gathers_all_that_is_found() -> None:
    inventory = SenseInventory.from_senses(
        [
            Sense("PT", "physical therapy", ("physical therapy", "Physical therapy")),
            Sense("PT", "physical therapies"),
            Sense("pt", "patient"),
        ]
    )
    assert [found.rule for found in review_inventory(inventory)] == [
        SAME_SHORT_FORM,
        REPEATED_FORM,
        SAME_WORDS,
    ]


@pytest.mark.parametrize(
    ("words", "one_stem"),
    [
        (("study", "studies"), "study"),
        (("test", "tests", "tested", "testing"), "test"),
        (("nurse", "nurses"), "nurs"),
        (("bilateral", "bilaterally"), "bilateral"),
    ],
)
def test_endings_are_cut_off(words: tuple[str, ...], one_stem: str) -> None:
    assert {stem(word) for word in words} == {one_stem}


@pytest.mark.parametrize("word", ["virus", "pelvis", "abscess", "bed", "gas", "sing"])
def test_a_word_that_only_looks_inflected_stays_whole(word: str) -> None:
    assert stem(word) == word


def test_function_words_and_possessives_carry_no_meaning() -> None:
    assert content_stems("Crohn's disease of the colon") == content_stems("colon Crohn disease")
    assert content_stems("to be") == {"to", "be"}


@given(first=WORDS, second=WORDS, limit=st.integers(0, 4))
def test_edits_are_counted_as_defined(first: str, second: str, limit: int) -> None:
    first, second = first[:5], second[:5]
    assert within_edits(first, second, limit) == (reference_distance(first, second) <= limit)
