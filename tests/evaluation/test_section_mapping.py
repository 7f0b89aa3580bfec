"""Foreign headers: a manual map, then exact, then alias, then nearest; each answer says how and how far."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import FormatError, InputError
from lmcells.evaluation.section_mapping import (
    MappedSection,
    SectionMapper,
    load_section_map,
    map_sections,
    section_distance,
)

KNOWN = [
    "PAST MEDICAL HISTORY",
    "HISTORY OF PRESENT ILLNESS",
    "ASSESSMENT AND PLAN",
    "DISCHARGE MEDICATIONS",
    "FEN",
]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "casi" / "casi_mimic_section_map.csv"

headers = st.text(st.sampled_from("ABCDE /&-:.1 "), min_size=1)


@pytest.mark.parametrize(
    ("header", "section", "how"),
    [
        (None, None, "no section"),
        ("  ", None, "no section"),
        ("Past medical  history:", "PAST MEDICAL HISTORY", "exact"),
        ("ASSESSMENT & PLAN", "ASSESSMENT AND PLAN", "exact"),
        ("2. FEN", "FEN", "exact"),
        ("PMH", "PAST MEDICAL HISTORY", "alias"),
        ("HPI", "HISTORY OF PRESENT ILLNESS", "alias"),
        ("HISTORY OF PRESENTING ILNESS", "HISTORY OF PRESENT ILLNESS", "nearest"),
        ("QQQ", None, "unmapped"),
    ],
)
def test_a_header_is_mapped_in_the_best_way_there_is(
    header: str | None, section: str | None, how: str
) -> None:
    mapped = SectionMapper(KNOWN)(header)
    assert (mapped.header, mapped.section, mapped.how) == (header, section, how)


def test_a_manual_map_overrides_everything() -> None:
    manual = {
        "Past Medical History": "FEN",
        "PMH": None,
        "1. GI": "discharge medications",
        "GI": "FEN",
        "X": "HPI",
    }
    mapper = SectionMapper(KNOWN, manual=manual)
    assert mapper("PAST MEDICAL HISTORY:") == MappedSection("PAST MEDICAL HISTORY:", "FEN", "manual")
    assert mapper("PMH") == MappedSection("PMH", None, "manual")
    assert mapper("1. GI").section == "DISCHARGE MEDICATIONS"
    assert mapper("2. GI").section == "FEN"
    assert mapper("X") == MappedSection("X", "HISTORY OF PRESENT ILLNESS", "alias")  # from what the map says


def test_counts_of_each_kind_add_up() -> None:
    mapper = SectionMapper(KNOWN)
    mapped = map_sections(["PMH", "PMH", "FEN", None, "QQQ", "DISCHARGE MEDICATIONS REVIEWED"], mapper)
    assert mapper.counts == {"alias": 2, "exact": 1, "no section": 1, "unmapped": 1, "nearest": 1}
    assert len(mapped) == mapper.counts.total()


def test_beyond_the_threshold_there_is_no_section_but_a_distance() -> None:
    strict = SectionMapper(KNOWN, threshold=0.1)("DISCHARGE MEDICATIONS REVIEWED")
    assert (strict.section, strict.how) == (None, "unmapped")
    assert 0.1 < strict.distance < 0.7
    with pytest.raises(InputError, match="allowed: 0 to 1"):
        SectionMapper(KNOWN, threshold=2)


def test_nothing_is_known_to_a_model_without_sections() -> None:
    assert SectionMapper([])("PLAN") == MappedSection("PLAN", None, "unmapped", 1.0)


@given(headers, headers)
def test_distances_are_symmetric_and_between_zero_and_one(one: str, other: str) -> None:
    assert 0.0 <= section_distance(one, other) <= 1.0
    assert section_distance(one, other) == pytest.approx(section_distance(other, one))


@given(headers, st.lists(headers, max_size=6))
def test_the_nearest_header_is_the_one_with_the_smallest_distance(header: str, known: list[str]) -> None:
    mapped = SectionMapper(known, threshold=1.0)(header)
    if mapped.how == "nearest":
        assert mapped.distance == pytest.approx(min(section_distance(header, each) for each in known))
        assert mapped.distance == pytest.approx(section_distance(header, mapped.section or ""))
    else:
        assert mapped.section is None or mapped.section in known


def test_manual_maps_come_as_csv_or_json(tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text('foreign,known\n"PMH, PSH",PAST\nX,\n')
    (tmp_path / "map.json").write_text('{"PMH, PSH": "PAST", "X": null}')
    expected = {"PMH, PSH": "PAST", "X": None}
    assert load_section_map(tmp_path / "map.csv") == load_section_map(tmp_path / "map.json") == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "foreign,known\nPMH\n", "line 2: 1 column"),
        ("b.csv", "foreign,known\n", "is empty"),
        ("c.json", "[1]", "expected a JSON object"),
        ("d.json", "{", "expected a JSON object"),
        ("e.json", '{"a": 1}', "expected a JSON object"),
    ],
)
def test_malformed_maps_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(FormatError, match=message):
        load_section_map(tmp_path / name)


def test_a_map_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_section_map(tmp_path / "nothing.csv")


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data/casi")
def test_the_threshold_divides_headers_with_a_counterpart_from_those_without() -> None:
    with SHARED.open(newline="") as file:
        by_hand = [(row["casi_section"], row["mimic_section"]) for row in csv.DictReader(file)]
    mapper = SectionMapper(list(dict.fromkeys(known for _, known in by_hand if known)))
    found = [(mapper(header), known) for header, known in by_hand]
    counterpart = [bool(known) for mapped, known in found if mapped.how == "nearest"]
    none = [not known for mapped, known in found if mapped.how == "unmapped"]
    assert sum(counterpart) / len(counterpart) > 0.95
    assert sum(none) / len(none) > 0.5
    near = [mapped.section == known for mapped, known in found if mapped.how == "nearest"]
    assert sum(near) / len(near) > 0.4  # one of 286, many of them alike
