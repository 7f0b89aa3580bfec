"""A text with its long forms written in, and the map of offsets both ways."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import InputError
from lmcells.expansion import Candidate, Expansion, expand_text
from lmcells.expansion.expanded_text import Style, plural


def expansion(
    start: int, end: int, long_form: str | None, short_form: str = "PT", source: str = "model"
) -> Expansion:
    candidates = (Candidate(long_form, 1.0),) if long_form else ()
    reason = None if long_form else "low_confidence"
    return Expansion(
        start, end, short_form, None, long_form, 1.0 if long_form else None, source, candidates, reason
    )  # type: ignore[arg-type]


def test_short_forms_are_replaced_or_followed_by_long_forms() -> None:
    text = "PT for MI."
    both = [expansion(7, 9, "myocardial infarction", "MI"), expansion(0, 2, "physical therapy")]
    assert expand_text(text, both).text == "physical therapy for myocardial infarction."
    assert (
        expand_text(text, both, style="append").text
        == "PT (physical therapy) for MI (myocardial infarction)."
    )


def test_what_was_abstained_from_stays() -> None:
    assert expand_text("PT", [expansion(0, 2, None)]).text == "PT"


@pytest.mark.parametrize(
    ("text", "short_form", "long_form", "expected"),
    [
        ("CVAs", "CVA", "cerebrovascular accident", "cerebrovascular accidents"),
        ("taken p.o.", "PO", "by mouth", "taken by mouth."),
        ("p.o. daily", "PO", "by mouth", "by mouth daily"),
        ("p.o. He", "PO", "by mouth", "by mouth. He"),
        ("Seen. p.o. now", "PO", "by mouth", "Seen. By mouth now"),
    ],
)
def test_plurals_and_dots_come_out_right(text: str, short_form: str, long_form: str, expected: str) -> None:
    start = text.index("p.o.") if "p.o." in text else 0
    end = start + 4
    assert expand_text(text, [expansion(start, end, long_form, short_form)]).text == expected


def test_a_definition_is_not_said_twice() -> None:
    text = "atrial fibrillation (AF), later AF and AF (atrial fibrillation)"
    places = [at for at in range(len(text)) if text.startswith("AF", at)]
    given_ = [expansion(at, at + 2, "atrial fibrillation", "AF", "definition") for at in places]
    assert expand_text(text, given_).text == (
        "atrial fibrillation (AF), later atrial fibrillation and AF (atrial fibrillation)"
    )


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("biopsy", "biopsies"),
        ("diagnosis", "diagnoses"),
        ("reflex", "reflexes"),
        ("day", "days"),
        ("tests", "tests"),
    ],
)
def test_plurals_by_rule(one: str, many: str) -> None:
    assert plural(one) == many


def test_expansions_of_another_text_are_refused() -> None:
    with pytest.raises(InputError, match="outside of the text"):
        expand_text("PT", [expansion(1, 5, "x")])
    with pytest.raises(InputError, match="overlaps"):
        expand_text("PT PT", [expansion(0, 3, "x"), expansion(1, 4, "y")])
    with pytest.raises(InputError, match="allowed: replace, append"):
        expand_text("PT", [], style="other")  # type: ignore[arg-type]


@st.composite
def texts_and_expansions(draw: st.DrawFn) -> tuple[str, list[Expansion]]:
    text = draw(st.text(max_size=40))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    long_forms = draw(
        st.lists(st.none() | st.text(min_size=1, max_size=9), min_size=len(pairs), max_size=len(pairs))
    )
    return text, [expansion(*pair, each) for pair, each in zip(pairs, long_forms, strict=True)]


@given(texts_and_expansions(), st.sampled_from(["replace", "append"]))
def test_offsets_are_mapped_both_ways(given_: tuple[str, list[Expansion]], style: Style) -> None:
    text, expansions = given_
    expanded = expand_text(text, expansions, style=style)
    offsets = expanded.offset_map
    replaced = [range(each.start, each.end) for each in expansions if each.long_form is not None]
    mapped = [offsets.to_expanded(offset) for offset in range(len(text) + 1)]
    assert mapped == sorted(mapped)
    assert mapped[-1] == len(expanded.text)
    for offset, new in enumerate(mapped[:-1]):
        if not any(offset in span for span in replaced):
            assert expanded.text[new] == text[offset]
            assert offsets.to_original(new) == offset
    back = [offsets.to_original(offset) for offset in range(len(expanded.text) + 1)]
    assert back == sorted(back)
    assert back[-1] == len(text)
    for each in expansions:
        if each.long_form is not None:
            written = expanded.text[offsets.to_expanded(each.start) : offsets.to_expanded(each.end)]
            assert each.long_form[1:] in written
            assert offsets.to_original(offsets.to_expanded(each.start)) == each.start
            assert offsets.to_original(offsets.to_expanded(each.end)) == each.end
    assert pickle.loads(pickle.dumps(expanded)) == expanded
