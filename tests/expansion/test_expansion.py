"""What an expander answers: expansions, calibrated probabilities, and texts written out."""

import json
import math
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import ConfigError, InputError, ModelError
from lmcells.expansion import Candidate, Expansion, expand_text
from lmcells.expansion.calibration import CALIBRATION, Calibration
from lmcells.expansion.expanded_text import Style, plural

EXPANSION = Expansion(
    3, 5, "PT", "PLAN", "physical therapy", 0.9, "model",
    (Candidate("physical therapy", 0.9, "C1"), Candidate("prothrombin time", 0.1)),
)  # fmt: skip
ABSTAINED = Expansion(3, 5, "PT", None, None, None, "model", EXPANSION.candidates, "low_confidence")


@pytest.mark.parametrize("expansion", [EXPANSION, ABSTAINED])
def test_it_survives_pickle_and_json(expansion: Expansion) -> None:
    assert pickle.loads(pickle.dumps(expansion)) == expansion
    assert Expansion.from_dict(json.loads(json.dumps(expansion.to_dict()))) == expansion
    assert hash(expansion) == hash(Expansion.from_dict(expansion.to_dict()))


@pytest.mark.parametrize(
    "change",
    [
        {"start": [3]},
        {"section": 7},
        {"probability": "0.9"},
        {"candidates": [{"long_form": "x", "probability": []}]},
    ],
)
def test_what_is_no_expansion_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Expansion.from_dict(EXPANSION.to_dict() | change)


def test_its_fields_go_into_json_under_their_names() -> None:
    assert list(EXPANSION.to_dict()) == [
        "start", "end", "short_form", "section", "long_form", "probability", "source", "candidates", "abstained",
        "error_prone",
    ]  # fmt: skip
    assert EXPANSION.to_dict()["candidates"][1] == {
        "long_form": "prothrombin time",
        "probability": 0.1,
        "concept_id": None,
    }


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        EXPANSION.start = 4  # type: ignore[misc]


def test_the_concept_is_that_of_the_answer() -> None:
    assert EXPANSION.concept_id == "C1"
    assert ABSTAINED.concept_id is None


SCORES = st.lists(st.floats(-1e3, 1e3) | st.just(-math.inf), min_size=1, max_size=8).map(np.array)


@given(SCORES, st.floats(0.01, 100))
def test_probabilities_add_up_and_keep_the_order(scores: np.ndarray, temperature: float) -> None:
    probabilities = Calibration(temperature=temperature).probabilities(scores)
    assert probabilities.sum() == pytest.approx(1)
    assert (np.diff(probabilities[np.argsort(scores, kind="stable")]) >= 0).all()
    if np.isfinite(scores).any():
        assert (probabilities[np.isneginf(scores)] == 0).all()


def test_a_temperature_of_two_halves_the_difference() -> None:
    probabilities = Calibration(temperature=2.0).probabilities(np.array([-1.0, -3.0]))
    assert probabilities[0] / probabilities[1] == pytest.approx(math.e)


def test_reasons_to_abstain() -> None:
    calibration = Calibration(least_probability=0.6, least_score=-10)

    def reason(*scores: float) -> str | None:
        return calibration.judge(np.array(scores))[1]

    assert reason(-1, -5) is None
    assert reason(-1, -1.1) == "low_confidence"
    assert reason(-11, -20) == "no_sense_fits"
    assert reason(-math.inf, -math.inf) == "no_known_long_form"


def test_by_default_every_question_is_answered() -> None:
    scores = np.array([-1e6, -1e6])
    assert Calibration().judge(scores) == ([0.5, 0.5], None)


def test_it_survives_a_model_folder(tmp_path: Path) -> None:
    assert Calibration.load(tmp_path) == Calibration()
    calibration = Calibration(temperature=3.5, least_probability=0.5, least_score=-2.0)
    calibration.save(tmp_path)
    assert Calibration.load(tmp_path) == calibration


NO_NUMBERS = ('"hot"', "[1, 2]", "[1]", "[]", "true", "{}", "9" * 400)


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", '{"heat": 1}', '{"temperature": 0}'),
        *(f'{{"{name}": {value}}}' for name in Calibration.__slots__ for value in NO_NUMBERS),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / CALIBRATION).write_text(content)
    with pytest.raises(ModelError, match=r"is damaged: [^\n]+$"):
        Calibration.load(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [{"temperature": -1}, {"temperature": math.nan}, {"least_probability": 2}, {"least_score": math.inf}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    assert json.dumps(list(settings))
    with pytest.raises(ConfigError, match="allowed"):
        Calibration(**settings)


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
    with pytest.raises(InputError, match="outside the text"):
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
