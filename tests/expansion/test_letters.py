"""Short forms that are in no inventory, by their letters."""

import pytest

from lmcells import Expander
from lmcells.expansion.letters import shortened


@pytest.mark.parametrize(
    ("word", "short_form", "expected"),
    [
        ("developed", "devel", "cut"),
        ("manufacturer", "mfr", "skeleton"),
        ("received", "recvd", "skeleton"),
        ("crying", "cry", None),  # an inflection
        ("worked", "woke", None),  # a vowel that a skeleton would drop
        ("abdomen", "abdome", None),  # hardly shorter
        ("health", "xlth", None),
    ],
)
def test_words_are_cut_off_or_lose_their_vowels(word: str, short_form: str, expected: str | None) -> None:
    assert shortened(word, short_form) == expected


def test_an_expander_reads_them_in_context_and_only_if_asked() -> None:
    note = "Chest radiog showed no infiltrate or effusion. Allergic to penicil and sulfa drugs."
    found = [
        (note[e.start : e.end], e.long_form)
        for e in Expander.from_pretrained()(note)
        if e.source == "letters"
    ]
    assert found == [("radiog", "radiograph"), ("penicil", "penicillin")]
    assert all(e.source != "letters" for e in Expander.from_pretrained(letters=False)(note))


def test_ordinary_words_names_and_scanned_noise_are_left_alone() -> None:
    notes = (
        "The patient was supple and denied welts. A Crile hemostat and Reglan were used by Dr. Allis.",
        "Coagulative tumo~ nec~osis ^ is ~be~nt. radical neph~ect~ |: Q~~de ~ {of 4}",
    )
    expander = Expander.from_pretrained()
    assert [e for note in notes for e in expander(note) if e.source == "letters"] == []


@pytest.mark.parametrize(
    "note",
    [
        "Platelet cout 164, hematocrit 37.",
        "The posterior cervi cal lips on the right side.",
        "He presented to his primary physici\n\nLABORATORY DATA: negative",
        "He had a slight slur to his speech.",
    ],
)
def test_typing_errors_and_parts_of_words_are_no_short_forms(note: str) -> None:
    assert [e for e in Expander.from_pretrained()(note) if e.source == "letters"] == []


def test_time_is_linear_in_hostile_text() -> None:
    expander = Expander.from_pretrained()
    note = "PT pulm " * 20_000  # minutes, if time were quadratic
    assert len(expander.lexicon(None, None).read(note)) == 40_000
