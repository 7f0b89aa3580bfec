"""Files of examples: broken rows are told apart and counted, the rest is read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.errors import FormatError, InputError
from lmcells.evaluation.dataset import (
    Example,
    load_section_map,
    map_section,
    read_dataset,
    spells,
    write_dataset,
)
from lmcells.notes.readers import ReadReport

GOOD = Example("a", "seen by PT today", 8, 10, "PT", "PLAN", "physical therapy", "notes/1")


def read(path: Path) -> tuple[list[Example], ReadReport]:
    report = ReadReport()
    return list(read_dataset(path, report=report)), report


def row(**changes: Any) -> str:
    return json.dumps(asdict(GOOD) | changes)


def without(key: str) -> str:
    return json.dumps({name: value for name, value in asdict(GOOD).items() if name != key})


def test_a_dataset_survives_a_file(tmp_path: Path) -> None:
    examples = [GOOD, Example("b", "MS", 0, 2, "MS", None, "multiple sclerosis", "notes/2")]
    write_dataset(tmp_path / "new" / "d.jsonl", iter(examples))
    read_back, report = read(tmp_path / "new" / "d.jsonl")
    assert read_back == examples
    assert report.n_read == 2


@given(st.text(), st.text(), st.none() | st.text(min_size=1))
@settings(max_examples=50)
def test_any_text_survives_a_file(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str, section: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "any_text.jsonl"
    example = Example("a", f"{before}PT{after}", len(before), len(before) + 2, "PT", section, "x", "n/1")
    write_dataset(path, [example])
    assert read(path)[0] == [example]


BROKEN = [
    ("not json", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("[1]", "not a JSON object"),
    (without("start"), "no 'start'"),
    (without("section"), "no 'section'"),
    (without("note_id"), "no 'note_id'"),
    (row(text=None), "no 'text'"),
    (row(text=5), "'text' is not a string"),
    (row(section=5), "'section' is not a string"),
    (row(start="8"), "'start' is not a whole number"),
    (row(end=True), "'end' is not a whole number"),
    (row(long_form=""), "empty short_form or long_form"),
    (row(end=400), "offsets outside the text"),
    (row(start=-8), "offsets outside the text"),
    (row(start=10), "offsets outside the text"),
    (row(start=7), "the offsets do not point at the short form"),
]


@pytest.mark.parametrize(("line", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_row_is_reported_with_its_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "d.jsonl").write_text("\n".join((row(), "", line, row())))
    examples, report = read(tmp_path / "d.jsonl")
    assert examples == [GOOD, GOOD]
    assert report.skipped == {reason: 1}
    assert report.first_seen[reason] == "d.jsonl:3"


def test_a_file_without_an_example_is_refused_without_quoting_it(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("the patient is Mr. Smith\n")
    with pytest.raises(FormatError, match=r"has no examples \(line 1: not JSON\)") as caught:
        read(tmp_path / "d.jsonl")
    assert "Smith" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "nothing.jsonl")


def test_numbers_may_be_ids(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(row(id=7, note_id=8))
    example = read(tmp_path / "d.jsonl")[0][0]
    assert (example.id, example.note_id) == ("7", "8")


def test_a_dataset_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_dataset(tmp_path / "file" / "d.jsonl", [GOOD])


def test_an_interrupted_write_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Any:
        yield GOOD
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_dataset(tmp_path / "d.jsonl", failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("written", ["PT", "pt", "P.T.", "PTs", "PT's", "PT’s"])
def test_case_dots_and_plurals_do_not_matter(written: str) -> None:
    assert spells(written, "PT")


@pytest.mark.parametrize("written", ["PTT", "P T", "T", "PT,", ""])
def test_other_spellings_do(written: str) -> None:
    assert not spells(written, "PT")


def test_an_example_does_not_show_its_text() -> None:
    assert "today" not in repr(GOOD)


def test_manual_maps_come_as_csv_or_json(tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text('foreign,known\n"PMH, PSH",PAST\nX,\n')
    (tmp_path / "map.json").write_text('{"PMH, PSH": "PAST", "X": null}')
    expected = {"PMH PSH": "PAST", "X": None}
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


@pytest.mark.parametrize(
    ("header", "section", "how"),
    [
        (None, None, "no section"),
        ("  ", None, "no section"),
        ("pmh, psh:", "PAST", "mapped"),
        ("X", None, "mapped to none"),
        ("PAST", "PAST", "as written"),
    ],
)
def test_a_map_decides_and_other_headers_stay(header: str | None, section: str | None, how: str) -> None:
    assert map_section(header, {"PMH PSH": "PAST", "X": None}) == (section, how)
