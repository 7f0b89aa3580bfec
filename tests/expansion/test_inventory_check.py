"""Checking an inventory: entries that say the same twice, and what a model knows of each sense."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expansion.clinic import (
    CLOTTING,
    INVENTORY,
    THERAPY,
    UNHEARD,
    mention,
    random_model,
)
from expansion.masked_span_clinic import stored_model
from lmcells.corpus import Corpus
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
    inventory_knowledge,
    review_inventory,
    stem,
    suggest_spellings,
    within_edits,
)
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.pretrained import PretrainedModel

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
    senses = [Sense(short_form, f"sense {short_form}") for short_form in ("PO", "p.o.", "PT", "pt", "PTT")]
    assert review_inventory(SenseInventory.from_senses(senses)) == [
        Finding("p.o.", "PO", "p.o.", SAME_SHORT_FORM),
        Finding("pt", "PT", "pt", SAME_SHORT_FORM),
    ]


def test_a_form_that_is_given_twice_in_another_case_is_found() -> None:
    sense = Sense("LR", "lactated Ringer's", ("lactated Ringer's", "Lactated ringer's", "Ringer's lactate"))
    assert review_inventory(SenseInventory.from_senses([sense])) == [
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


BY_WORDS = Sense("PT", "gait balance", ("gait balance", "gait xylophone"))
SENSES = INVENTORY.add(UNHEARD, BY_WORDS, Sense("PT", "out-patient", ("out-patient",)))


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return stored_model(tmp_path_factory.mktemp("model") / "model", corpus)


def test_each_sense_is_known_by_its_places_by_its_words_or_not(model: PretrainedModel) -> None:
    known = {each.sense.long_form: each for each in inventory_knowledge(model, SENSES)}
    assert known["physical therapy"].how == "frequent"
    assert known["physical therapy"].count == 40
    assert known["physical therapy"].unknown_words == ("physiotherapy",)
    assert (known["gait balance"].how, known["gait balance"].count) == ("words", 0)
    assert known["gait balance"].unknown_words == ("xylophone",)
    assert (known["xylophone"].how, known["xylophone"].unknown_words) == ("unknown", ("xylophone",))
    assert known["out-patient"].how == "unknown"
    assert all(each.n_in_corpus is None for each in known.values())


def test_they_come_in_the_inventory_s_order_and_sort_worst_first(model: PretrainedModel) -> None:
    known = inventory_knowledge(model, SENSES)
    assert [each.sense for each in known] == list(SENSES)
    hows = [each.how for each in sorted(known, key=lambda each: each.badness)]
    assert hows == sorted(hows, key=("unknown", "words", "frequent").index)


def test_unknown_is_what_is_ranked_last(model: PretrainedModel) -> None:
    scores = MaskedSpanRanker(model, SENSES).scores([mention("gait PT stairs")])[0]
    hows = [each.how for each in inventory_knowledge(model, SENSES) if each.sense.short_form == "PT"]
    assert np.isneginf(scores).tolist() == [how == "unknown" for how in hows]


def test_a_model_without_a_phrase_store_knows_words_alone(corpus: Corpus, tmp_path: Path) -> None:
    known = inventory_knowledge(random_model(tmp_path / "plain", corpus, "lmc"), SENSES)
    hows = {each.sense.long_form: each.how for each in known}
    assert set(hows.values()) == {"words", "unknown"}
    assert hows["physical therapy"] == "words"
    assert hows["xylophone"] == "unknown"


def test_a_corpus_says_how_often_a_sense_stands_in_it(model: PretrainedModel, corpus: Corpus) -> None:
    known = {each.sense: each for each in inventory_knowledge(model, SENSES, corpus=corpus)}
    assert known[THERAPY].n_in_corpus == known[CLOTTING].n_in_corpus == 40
    assert known[UNHEARD].n_in_corpus == 0
    for each in known.values():
        if each.how == "frequent" and each.count:
            assert each.n_in_corpus >= each.count  # the store has frequent wordings only


def test_the_nearest_known_spelling_is_suggested() -> None:
    vocabulary = ["gastrostomy", "gastritis", "pain", "<digit>"]
    assert suggest_spellings(["gastrostmy", "pian", "zzz", ""], vocabulary) == {"gastrostmy": "gastrostomy"}


def test_suggestions_are_made_for_the_first_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmcells.expansion.inventory_check._MOST_SUGGESTIONS", 5)
    words = [f"gastritis{letter}" for letter in "abcdefgh"]
    assert list(suggest_spellings(words, ["gastritis"])) == words[:5]


@given(st.lists(st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=6))
def test_suggestions_are_words_of_the_vocabulary(words: list[str], vocabulary: list[str]) -> None:
    suggestions = suggest_spellings(words, vocabulary)
    assert suggestions.keys() <= set(words)
    assert set(suggestions.values()) <= set(vocabulary)
