"""The report of a reading."""

import json
from pathlib import Path

from lmcells.notes.readers import ReadReport


def example() -> ReadReport:
    report = ReadReport(n_read=3)
    report.skip("empty note", 7, path=Path("folder/notes.csv"))
    report.skip("empty note", 9, path=Path("folder/notes.csv"))
    report.warn("invalid UTF-8 replaced")
    return report


def test_rows_seen_are_read_or_skipped() -> None:
    report = example()
    assert (report.n_seen, report.n_read, report.n_skipped) == (5, 3, 2)


def test_the_first_place_of_each_reason_is_kept() -> None:
    assert example().first_seen == {"empty note": "notes.csv:7", "invalid UTF-8 replaced": ""}


def test_a_report_survives_json() -> None:
    report = example()
    assert ReadReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_merged_counts_add_up_and_the_earlier_place_stays() -> None:
    report, later = example(), ReadReport(n_read=1)
    later.skip("empty note", 1, path=Path("later.csv"))
    later.skip("not JSON", 2, path=Path("later.jsonl"))
    report.merge(later)
    assert report.n_read == 4
    assert report.skipped == {"empty note": 3, "not JSON": 1}
    assert report.first_seen["empty note"] == "notes.csv:7"
    assert report.first_seen["not JSON"] == "later.jsonl:2"
