"""The paper's sections: the matches of its expression, to the letter, in linear time."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmcells.notes.section_styles import find_paper_sections

PAPER = re.compile(r"(?:^|\s{4,}|\n)[\d.#]{0,4}\s*([A-Z][A-z0-9/ ]+[A-z]:)")

NASTY = " \n\t\x0b\x1c\xa0\u0663" + "019.#" + "ABZabz" + ":/" + "[\\]^_`" + "-,(é"
PIECES = [
    *NASTY,
    *["    ", "   ", "\n\n", "\n ", "\t\t\t\t", "1.", "10", "....", ".....", "#1.", "\u0663\u0663"],
    *"HPI:|Chief Complaint:|A:|AB:|A/P:|PLAN|and so on:|A[B]:|X _:|Z1:|A |AA   A".split("|"),
]
nasty_text = st.one_of(
    st.text(NASTY, max_size=60), st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
)


def header_spans(text: str) -> list[tuple[int, int]]:
    return [(s.start, s.body_start) for s in find_paper_sections(text) if s.header is not None]


@settings(max_examples=1000)
@given(nasty_text)
@example("    1234 A B:")
@example("    12345A B:")
@example("x\n12. A B:")
@example("x\n\t1. A B:")
@example(" 1A B:")
@example("A B    CD    EF:")
@example("AAA:    BBB:BBB:\nCCC:")
def test_headers_are_exactly_the_matches_of_the_expression(text: str) -> None:
    assert header_spans(text) == [match.span(1) for match in PAPER.finditer(text)]


@settings(max_examples=300)
@given(nasty_text)
def test_sections_touch_and_cover_the_note(text: str) -> None:
    sections = find_paper_sections(text)
    assert "".join(text[s.start : s.end] for s in sections) == text
    assert all(left.end == right.start for left, right in pairwise(sections))
    assert all(s.start < s.end for s in sections)
    assert all(s.header is not None for s in sections[1:])


def test_a_header_keeps_its_text_and_is_named_in_upper_case() -> None:
    text = "Dictated today.\nChief  Complaint: cough"
    before, complaint = find_paper_sections(text)
    assert (before.header, before.name, before.body_start) == (None, "", 0)
    assert (complaint.header, complaint.name) == ("Chief  Complaint", "CHIEF COMPLAINT")
    assert text[complaint.body_start : complaint.end] == " cough"


def test_an_empty_note_has_no_sections() -> None:
    assert find_paper_sections("") == ()


def test_a_note_without_headers_is_one_piece_of_no_section() -> None:
    (section,) = find_paper_sections("Doing well.")
    assert (section.header, section.name, section.start, section.end) == (None, "", 0, 11)


HOSTILE = {
    "blanks": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "one capital": lambda n: "A" * n,
    "one capital, then a colon": lambda n: "A" * n + ":",
    "columns of capitals": lambda n: "AB      CD " * (n // 11),
    "columns of capitals, then a colon": lambda n: "AB      CD " * (n // 11) + "9:",
    "columns of lower case before a colon": lambda n: "    a" * (n // 5) + ":",
    "columns of digits before a colon": lambda n: "    1" * (n // 5) + "a:",
    "blanks before a colon": lambda n: " " * n + "a:",
    "colons": lambda n: ":" * n,
    "colons after letters": lambda n: "AAAAAAA:" * (n // 8),
    "lines without colons": lambda n: "Aspirin 81 mg\n" * (n // 14),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_is_linear_on_hostile_text(kind: str) -> None:
    text = HOSTILE[kind](200_000)  # minutes, if time were quadratic
    assert find_paper_sections(text)[-1].end == len(text)
