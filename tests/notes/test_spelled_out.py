"""Short forms that a note defines, written out: which mentions, in which sections, and where headers stand then."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.notes.definitions import find_definitions
from lmcells.notes.readers.records import join_sections
from lmcells.notes.sections import NO_HEADER, Header
from lmcells.notes.spelled_out import spell_out

# Long forms are capitals where they are defined, so that in lower case they can only come from a short form.
LONG_FORMS = {"FM": "Fat Measure", "FFM": "Fat Free Mass", "IL-6": "Interleukin-6", "BP": "Blood Pressure"}
WORDS = [  # no lone ")": "FFM ( FM FM )" would define FFM
    *(f"{long_form} ({short_form})" for short_form, long_form in LONG_FORMS.items()),
    *"FM FMs FFM IL-6 BP BPs FM/FFM non-FM FM-like FM+ FM2 x.FM fm (FM) FM. é 😀 weight ( ;".split(),
    "\n",
]
sections_of_words = st.lists(
    st.tuples(
        st.sampled_from([None, "FM", "Blood pressure (BP)", "Plan"]),
        st.lists(st.sampled_from(WORDS), max_size=15),
    ),
    min_size=1,
    max_size=6,
).map(lambda sections: [*((header, " ".join(words)) for header, words in sections), ("End", "rest")])
# By chance words may define other things: "Free Mass (FFM) FFM (FM)".
sections_of_words = sections_of_words.filter(
    lambda sections: (
        {each.long_form.lower() for each in find_definitions(note_of(sections)[0])}
        <= {long_form.lower() for long_form in LONG_FORMS.values()}
    )
)
shares = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def spelled(text: str, *, share: float = 1.0) -> str:
    return spell_out(text, [NO_HEADER], note_id="note", share=share)[0]


def note_of(sections: list[tuple[str | None, str]]) -> tuple[str, list[Header]]:
    text, found = join_sections(sections)
    return text, [(start, body_start, header, name) for header, name, start, body_start, _ in found]


def bodies(text: str, headers: list[Header]) -> list[str]:
    ends = [start for start, *_ in headers[1:]] + [len(text)]
    return [text[body_start:end] for (_, body_start, *_), end in zip(headers, ends, strict=True)]


def titles(text: str, headers: list[Header]) -> list[str]:
    return [text[start:body_start] for start, body_start, *_ in headers]


def with_short_forms(text: str) -> str:
    """Put the short forms back."""
    for short_form, long_form in LONG_FORMS.items():
        text = text.replace(long_form.lower(), short_form)
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fat mass (FM) fell. Changes in FM.", "Fat mass (FM) fell. Changes in fat mass."),
        ("FM fell: fat mass (FM)", "fat mass fell: fat mass (FM)"),
        ("FM (fat mass) fell, FM", "FM (fat mass) fell, fat mass"),
        ("heart rate (HR), two HRs", "heart rate (HR), two heart rates"),
        ("adverse events (AEs), AEs", "adverse events (AEs), adverse events"),
        ("fat mass (FM); fm Fm FMx FM2 FM+ 2FM A/FM A&FM non-FM", None),
        ("fat mass (FM); FM-like, (FM), FM/x", "fat mass (FM); fat mass-like, (fat mass), fat mass/x"),
        (
            "fat mass (FM), frequency modulation (FM), Frequency Modulation (FM): FM",
            "fat mass (FM), frequency modulation (FM), Frequency Modulation (FM): frequency modulation",
        ),
        (
            "fat mass (FM), frequency modulation (FM): FM",
            "fat mass (FM), frequency modulation (FM): fat mass",
        ),
        (
            "human virus (HV), human virus early (HV-E): HV-E, HV",
            "human virus (HV), human virus early (HV-E): human virus early, human virus",
        ),
        (
            "escherichia coli (E.CO), cardiac output (CO): E.CO, CO",
            "escherichia coli (E.CO), cardiac output (CO): escherichia coli, cardiac output",
        ),
        ("the FM of a radio", None),
        ("", None),
    ],
)
def test_mentions_of_a_defined_short_form_are_written_out(text: str, expected: str | None) -> None:
    assert spelled(text) == (text if expected is None else expected)


def test_a_definition_does_not_reach_across_a_header() -> None:
    text, headers = note_of([("A", "high fat mass"), ("(FM) after", "FM")])
    assert spell_out(text, headers, note_id="note", share=1.0) == (text, headers)


def test_a_mention_may_end_where_a_header_begins_and_begin_where_it_ends() -> None:
    text = "fat mass (FM), FM\nPLAN: FM\nEND:FM"
    headers = [NO_HEADER, (17, 24, "PLAN", "PLAN"), (26, 31, "END", "END")]
    new_text, new_headers = spell_out(text, headers, note_id="note", share=1.0)
    assert new_text == "fat mass (FM), fat mass\nPLAN: fat mass\nEND:fat mass"
    assert titles(new_text, new_headers) == titles(text, headers) == ["", "\nPLAN: ", "\nEND:"]


@given(sections_of_words, shares)
def test_headers_stay_and_bodies_differ_in_short_forms_alone(
    sections: list[tuple[str | None, str]], share: float
) -> None:
    text, headers = note_of(sections)
    new_text, new_headers = spell_out(text, headers, note_id="note", share=share)
    assert titles(new_text, new_headers) == titles(text, headers)
    assert [header[2:] for header in new_headers] == [header[2:] for header in headers]
    for body, new_body in zip(bodies(text, headers), bodies(new_text, new_headers), strict=True):
        assert with_short_forms(new_body) == body


@given(sections_of_words)
def test_everything_is_written_out_where_one_pattern_finds_it(sections: list[tuple[str | None, str]]) -> None:
    """The same by a pattern of all short forms, in whole bodies whose definitions are taken out first."""
    text, headers = note_of(sections)
    new_text, new_headers = spell_out(text, headers, note_id="note", share=1.0)
    definition = re.compile("|".join(rf"{long} \({short}\)" for short, long in LONG_FORMS.items()))
    defined = {
        found[0].split("(")[1][:-1] for body in bodies(text, headers) for found in definition.finditer(body)
    }
    if not defined:
        assert (new_text, new_headers) == (text, headers)
        return
    short_forms = "|".join(sorted(defined, key=len, reverse=True))
    mention = re.compile(rf"({definition.pattern})|(?<![A-Za-z0-9/&+-])({short_forms})(s?)(?![A-Za-z0-9+])")
    expected = [
        mention.sub(lambda found: found[1] or LONG_FORMS[found[2]].lower() + found[3], body)
        for body in bodies(text, headers)
    ]
    assert bodies(new_text, new_headers) == expected


@given(sections_of_words, st.text(max_size=5))
def test_a_section_writes_out_all_mentions_of_a_short_form_or_none(
    sections: list[tuple[str | None, str]], note_id: str
) -> None:
    text, headers = note_of(sections)
    whole = bodies(*spell_out(text, headers, note_id=note_id, share=1.0))
    part = bodies(*spell_out(text, headers, note_id=note_id, share=0.5))
    for body, written_out, new_body in zip(bodies(text, headers), whole, part, strict=True):
        for long_form in map(str.lower, LONG_FORMS.values()):
            assert new_body.count(long_form) in {body.count(long_form), written_out.count(long_form)}


@given(sections_of_words)
def test_a_share_of_nothing_changes_nothing(sections: list[tuple[str | None, str]]) -> None:
    text, headers = note_of(sections)
    assert spell_out(text, headers, note_id="note", share=0.0) == (text, headers)


def test_the_share_of_sections_is_the_one_asked_for_and_grows_with_it() -> None:
    n_sections = 4000
    text, headers = note_of([(None, "Fat Mass (FM)"), *[("Plan", "FM")] * (n_sections - 1)])

    def written_out(share: float, note_id: str = "note") -> set[int]:
        found = bodies(*spell_out(text, headers, note_id=note_id, share=share))
        return {number for number, body in enumerate(found) if body.strip() == "fat mass"}

    assert len(written_out(0.25)) == pytest.approx(0.25 * n_sections, rel=0.15)
    assert len(written_out(0.5)) == pytest.approx(0.5 * n_sections, rel=0.1)
    assert written_out(0.25) < written_out(0.5) < written_out(1.0)
    # In another note they are others, neither the same nor the opposite.
    assert len(written_out(0.5) & written_out(0.5, "other")) == pytest.approx(0.25 * n_sections, rel=0.15)


def test_what_another_section_says_does_not_decide() -> None:
    plain = [("A", "Fat Mass (FM)"), ("B", "weight and FM"), ("C", "FM")]
    longer = [("A", "Fat Mass (FM) FM Blood Pressure (BP)"), ("B", "FM, FM, BP"), ("C", "FM")]
    for number in range(50):
        one, other = (
            bodies(*spell_out(*note_of(sections), note_id=f"note {number}", share=0.5))
            for sections in (plain, longer)
        )
        assert [("fat mass" in body) for body in one[1:]] == [("fat mass" in body) for body in other[1:]]


def test_a_note_may_define_thousands_of_short_forms() -> None:
    letters = dict(zip("abcdefgh", "alpha beta cedar delta eta five gamma hill".split(), strict=True))
    fours = list(product(letters, repeat=4))
    definitions = [f"{' '.join(map(letters.get, four))} ({''.join(four).upper()}). " for four in fours]
    text = "".join(definitions) + "AAAA and AFTER HHHH " * 1000
    assert spelled(text).endswith("alpha alpha alpha alpha and AFTER hill hill hill hill " * 1000)
