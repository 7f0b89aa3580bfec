"""Counted, joined and sided forms, and codes."""

import pytest

from lmcells.expansion.grammar import find_codes, find_counted

FORMS = pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nebs q6h prn", {"q6h": "every 6 hours"}),
        ("q4hours", {"q4hours": "every 4 hours"}),
        ("nocturia q.1h. The", {"q.1h.": "every 1 hour"}),
        ("q. 8 hours", {"q. 8 hours": "every 8 hours"}),
        ("q2wk", {"q2wk": "every 2 weeks"}),
        ("q 4-6 hrs", {"q 4-6 hrs": "every 4-6 hours"}),
        ("2 puffs 4hrly", {"4hrly": "every 4 hours"}),
        ("oriented x3.", {"x3": "times three"}),
        ("Keflex x10 days", {"x10": "for 10"}),
        ("A&Ox3", {"A&Ox3": "alert and oriented times three"}),
        ("G3P2012 at term", {"G3P2012": "gravida 3 para 2012"}),
        ("POD#3", {"POD#3": "postoperative day 3"}),
        (
            "D5W and D5 1/2NS",
            {"D5W": "5% dextrose in water", "D5 1/2NS": "5% dextrose in half normal saline"},
        ),
        ("27yo and 45 y/o M", {"yo": "year old", "y/o": "year old", "M": "male"}),
        ("T98.6 BP120/80", {"T": "temperature", "BP": "blood pressure"}),
        ("for 3/7, in 2/52", {"3/7": "3 days", "2/52": "2 weeks"}),
        ("tx w/ fever, p/vax", {"w/": "with", "p/": "after"}),
        ("pain in R shoulder and (L) arm", {"R": "right", "L": "left"}),
    ],
)


@FORMS
def test_what_is_counted_or_joined_is_read_out(text: str, expected: dict[str, str]) -> None:
    assert {text[each.start : each.end]: each.long_form for each in find_counted(text)} == expected


@FORMS
def test_forms_are_read_at_any_distance_from_each_other(text: str, expected: dict[str, str]) -> None:
    for between in (" and ", " The patient slept well, ate and walked. " * 9):
        found = find_counted(between.join([text] * 3))
        assert [each.long_form for each in found] == list(expected.values()) * 3


@pytest.mark.parametrize(
    "text",
    [
        "4 x 3 x 2 cm",
        "4x3 cm",
        "x-ray",
        "on 6/7/04",
        "x3.5",
        "submitted, X1 and X2.",
        "19aug94 mom noticed",
        "w/o",
        "3x daily",
    ],
)
def test_dimensions_dates_labels_and_other_forms_are_left_alone(text: str) -> None:
    assert find_counted(text) == []


def test_codes_are_read_out_when_asked_for() -> None:
    text = "pT3a, L5 and CD20"
    assert [(text[each.start : each.end], each.long_form) for each in find_codes(text)] == [
        ("pT3a", "pathologic primary tumor 3a"),
        ("L5", "lumbar 5"),
        ("CD20", "cluster of differentiation 20"),
    ]
    assert find_counted(text) == []
