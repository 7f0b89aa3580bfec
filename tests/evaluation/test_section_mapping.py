"""Foreign headers: a manual map, then exact, then alias, then nearest."""

import csv
import math
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import FormatError, InputError
from lmcells.evaluation.section_mapping import FARTHEST, SectionMapper, load_section_map

KNOWN = "PAST MEDICAL HISTORY|HISTORY OF PRESENT ILLNESS|ASSESSMENT AND PLAN|DISCHARGE MEDICATIONS|FEN".split(
    "|"
)
BY_HAND = Path(os.environ.get("LMCELLS_DATA", "")) / "casi" / "casi_mimic_section_map.csv"


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
    assert SectionMapper(KNOWN)(header) == (section, how)


def test_a_manual_map_overrides_everything() -> None:
    manual = {
        "Past Medical History": "FEN",
        "PMH": None,
        "1. GI": "discharge medications",
        "GI": "FEN",
        "X": "HPI",
    }
    mapper = SectionMapper(KNOWN, manual=manual)
    assert mapper("PAST MEDICAL HISTORY:") == ("FEN", "manual")
    assert mapper("PMH") == (None, "manual")
    assert mapper("1. GI") == ("DISCHARGE MEDICATIONS", "manual")
    assert mapper("2. GI") == ("FEN", "manual")
    assert mapper("X") == ("HISTORY OF PRESENT ILLNESS", "alias")  # from what the map says


def test_counts_of_each_kind_add_up() -> None:
    mapper = SectionMapper(KNOWN)
    for header in ("PMH", "PMH", "FEN", None, "QQQ", "DISCHARGE MEDICATIONS REVIEWED"):
        mapper(header)
    assert mapper.counts == {"alias": 2, "exact": 1, "no section": 1, "unmapped": 1, "nearest": 1}


def test_nothing_is_known_to_a_model_without_sections() -> None:
    assert SectionMapper(["<no section>", "<other>"])("OTHER") == (None, "unmapped")


def distance(one: str, other: str) -> float:
    """1 - (cosine of character trigrams + overlap of words) / 2, of headers in capitals without punctuation."""
    first, second = (
        Counter(f" {key} "[start : start + 3] for start in range(len(key))) for key in (one, other)
    )
    norms = (math.sqrt(sum(n * n for n in each.values())) for each in (first, second))
    cosine = sum(n * second[trigram] for trigram, n in first.items()) / math.prod(norms)
    words = set(one.split()), set(other.split())
    return 1 - (cosine + len(words[0] & words[1]) / len(words[0] | words[1])) / 2


headers = st.lists(st.sampled_from(["BCD", "BCE", "CDE", "EFG"]), min_size=1, max_size=3).map(" ".join)


@given(headers, st.lists(headers, min_size=1, max_size=6))
def test_the_nearest_header_is_the_one_with_the_smallest_distance(header: str, known: list[str]) -> None:
    section, how = SectionMapper(known)(header)
    smallest = min(distance(header, each) for each in known)
    if how == "nearest":
        assert distance(header, section or "") == pytest.approx(smallest)
        assert smallest <= FARTHEST
    elif how == "exact":
        assert section == header
    else:
        assert how == "unmapped"
        assert smallest > FARTHEST


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


@pytest.mark.skipif(not BY_HAND.is_file(), reason="needs LMCELLS_DATA with casi/")
def test_the_threshold_divides_headers_with_a_counterpart_from_those_without() -> None:
    with BY_HAND.open(newline="") as file:
        by_hand = [(row["casi_section"], row["mimic_section"]) for row in csv.DictReader(file)]
    mapper = SectionMapper(dict.fromkeys(known for _, known in by_hand if known))
    found = [(*mapper(header), known) for header, known in by_hand]
    nearest = [(section, known) for section, how, known in found if how == "nearest"]
    none = [not known for _, how, known in found if how == "unmapped"]
    assert sum(bool(known) for _, known in nearest) / len(nearest) > 0.95
    assert sum(none) / len(none) > 0.5
    is_same = [section == known for section, known in nearest]
    assert sum(is_same) / len(is_same) > 0.4  # one of 286, many of them alike
