"""CASI: every filter on invented rows in the published format, and the reader on the 190 real rows at hand."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.evaluation import casi
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.notes.readers import ReadReport

CASI = Path(os.environ.get("LMCELLS_DATA", "")) / "casi"
real_rows = pytest.mark.skipif(not (CASI / "rare_data.csv").is_file(), reason="needs LMCELLS_DATA with casi/")


def published(
    text: str, *, short_form: str = "PT", long_form: str = "physical therapy", section: str = "PLAN"
) -> str:
    """A row as CASI has it, with the offsets of the first place of the short form."""
    start = max(0, text.find(short_form))
    return f"{short_form}|{long_form}|{short_form}|{start}|{start + len(short_form) - 1}|{section}|{text}"


def write(path: Path, lines: Iterable[str], *, encoding: str = "utf-8") -> Path:
    path.write_bytes("\r\n".join(lines).encode(encoding))
    return path


def read(path: Path) -> tuple[list[Example], ReadReport]:
    report = ReadReport()
    return list(casi.read_casi_rows(path, report=report)), report


def row(
    text: str = "seen by PT today", *, start: int = 8, long_form: str = "x", short_form: str = "PT"
) -> Example:
    return Example("casi/1", text, start, start + 1, short_form, None, long_form, "casi/1")


def meaning(*long_forms: str) -> list[Example]:
    return [row(long_form=each) for each in long_forms]


def left(name: str, *rows: Example) -> list[int]:
    """Positions of the rows that a filter leaves."""
    kept = casi.FILTERS[name][1](list(rows))
    return [position for position, row in enumerate(rows) if any(row is each for each in kept)]


# ---- the reader


def test_a_published_row_is_read_as_it_stands(tmp_path: Path) -> None:
    rows, report = read(
        write(tmp_path / "casi.txt", [published("seen by PT  today", section="HOSPITAL  COURSE")])
    )
    labels = ("PT", "HOSPITAL COURSE", "physical therapy")
    assert rows == [Example("casi/1", "seen by PT  today", 8, 9, *labels, note_id="casi/1")]
    assert report.n_read == 1


def test_quotes_pipes_and_foreign_bytes_in_the_text_stay_in_the_text(tmp_path: Path) -> None:
    texts = ['he said "PT | OT', "caf\N{LATIN SMALL LETTER E WITH ACUTE} PT 37\N{DEGREE SIGN} now"]
    for encoding in ("utf-8", "cp1252"):
        rows, report = read(write(tmp_path / "casi.txt", map(published, texts), encoding=encoding))
        assert [each.text for each in rows] == texts
        assert report.warnings == ({} if encoding == "utf-8" else {"not UTF-8: read as cp1252": 1})
    (tmp_path / "casi.txt").write_bytes(b"PT|x|PT|0|1||PT \x81\xe9 a\n" + published("PT b").encode())
    rows, report = read(tmp_path / "casi.txt")
    assert [each.text for each in rows] == ["PT \x81\xe9 a", "PT b"]
    assert report.warnings == {"not UTF-8: read as latin-1": 1}
    assert report.first_seen["not UTF-8: read as latin-1"] == "casi.txt:1"


def test_a_line_that_is_no_row_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    lines = [published("PT a"), "PT|x|PT|0", "", "PT|x|PT|zero|1||PT b", published("PT c")]
    header = "sf|target_lf|sf_rep|start_idx|end_idx|section|context"
    rows, report = read(write(tmp_path / "casi.txt", [header, *lines]))
    assert [each.id for each in rows] == ["casi/1", "casi/5"]
    assert report.n_seen == 4
    rows, report = read(write(tmp_path / "casi.txt", lines))
    assert [each.id for each in rows] == ["casi/1", "casi/5"]
    assert report.skipped == {"fewer than 7 columns": 1, "an offset is not a whole number": 1}
    assert report.first_seen["fewer than 7 columns"] == "casi.txt:2"
    assert report.n_seen == 4


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("{0}\r{0}\r", "is one line with carriage returns. Save it with line ends"),
        ("sf|target_lf|sf_rep|start_idx|end_idx|section|context\n", "no row can be read (only a header)"),
        ("a|b|c|d|e|f|g\n", "no row can be read (an offset is not a whole number)"),
    ],
)
def test_a_file_without_a_row_says_why(tmp_path: Path, lines: str, why: str) -> None:
    path = tmp_path / "casi.txt"
    path.write_text(lines.format(published("seen by PT today")), newline="")
    with pytest.raises(FormatError, match=re.escape(why)):
        read(path)


def test_a_csv_resave_keeps_the_numbers_of_the_published_rows(tmp_path: Path) -> None:
    lines = [
        ",sf,target_lf,sf_rep,start_idx,end_idx,section,context,target_lf_idx",
        '16003,PT,physical therapy,PT.,0,2,,"PT. a, ""b""\nc",0',
        "4,PT,x",
        "7,PT,x,PT,0,1,PLAN,PT d,0",
    ]
    path = tmp_path / "casi.csv"
    path.write_text("\n".join(lines))
    rows, report = read(path)
    assert [each.id for each in rows] == ["casi/16004", "casi/8"]
    assert [each.text for each in rows] == ['PT. a, "b"\nc', "PT d"]
    assert report.skipped == {"fewer than 7 columns": 1}


def test_a_file_that_is_not_casi_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no column 'target_lf'"):
        read(write(tmp_path / "a.csv", ["sf,lf", "a,b"]))
    with pytest.raises(FormatError, match="has no rows"):
        read(write(tmp_path / "blank.txt", ["  ", ""]))
    with pytest.raises(FormatError, match="empty"):
        read(write(tmp_path / "empty.txt", []))
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "nothing.txt")


# ---- the filters, in order


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("nulls", [row(short_form=""), row(long_form=""), row(" "), row("")]),
        ("codes", [row(short_form=code) for code in ("C3", "C4", "T1", "T2", "T3", "T4")]),
        ("repeated-short-forms", meaning("PT", "a pt test")),
        ("unclear-senses", meaning("UNSURED SENSE", "MISTAKE:pain", "GENERAL ENGLISH", "NAME")),
        ("listed-long-forms", meaning("Iowa", "right", "Fairview Southdale Hospital", "California:CA")),
        ("tokens", [row("ratio of PT-1 x", start=9, short_form="PT-1")]),
    ],
)
def test_a_filter_drops_what_it_should_and_nothing_else(name: str, dropped: list[Example]) -> None:
    kept = [
        *meaning("x", "symptom", "a name", "right atrium"),
        row("sent C&S now", start=5, short_form="C&S"),
        row("to OR today", start=3, short_form="OR"),
    ]
    assert left(name, *kept, *dropped) == list(range(len(kept)))


@pytest.mark.parametrize(
    ("text", "start", "hit"),
    [
        ("seen by PT today", 8, True),
        ("PT. Then", 0, True),
        ("by PT, then", 3, True),
        ("(PT) then", 1, True),
        ("seen by PT today", 7, False),
        ("seen by PT today", 400, False),
        ("seen by PTs today", 8, False),
        ("seen by aPT today", 9, False),
        ("seen by pt today", 8, False),
        ("ends with PT", 10, False),
        ("ends with PT.", 10, False),
        ("PT/OT now", 0, False),
    ],
)
def test_the_offset_must_hit_the_short_form_with_a_space_soon_after(text: str, start: int, hit: bool) -> None:
    assert left("offsets", row(text, start=start)) == [0] * hit


def test_duplicates_are_those_of_long_form_and_words() -> None:
    rows = [row(), row("Seen by  PT today!"), row(long_form="y"), row("seen by PT then")]
    assert left("duplicates", *rows) == [0, 2, 3]
    # As in the authors' code, stop words and numbers do not count.
    assert left("duplicates", row("PT at 5 today"), row("the PT of 12.5 today"), row("PT x5 today")) == [0, 2]


def test_short_forms_with_one_sense_are_dropped() -> None:
    rows = [row(), row(long_form="y"), row(short_form="MS"), row(short_form="MS")]
    assert left("single-sense", *rows) == [0, 1]


# ---- the whole


def a_row_for_every_filter() -> list[str]:
    return [
        published("seen by PT today"),
        published("seen by PT on Monday", long_form="Physical Therapy", section="1. PLAN"),
        published("long PT and high INR", long_form="prothrombin time", section=""),
        published("long PT was seen", long_form="prothrombin time:PTT"),
        published("", long_form="prothrombin time"),
        published("level T3 broken", short_form="T3", long_form="third thoracic vertebra"),
        published("PT now", long_form="PT test"),
        published("PT now", long_form="UNSURED SENSE"),
        published("LA sun", short_form="LA", long_form="Los Angeles"),
        published("PTs now"),
        published("in PT-X now", short_form="PT-X", long_form="ratio"),
        published("Seen by PT, today"),
        published("MS is lonely", short_form="MS", long_form="multiple sclerosis"),
        published("US of it", short_form="US", long_form="ultrasound"),
        published("US of A", short_form="US", long_form="United States"),
    ]


def build(path: Path, **options: object) -> casi.CasiDataset:
    return casi.build_casi_dataset(path, **options)  # type: ignore[arg-type]


def test_every_filter_removes_its_row_in_the_paper_s_order(tmp_path: Path) -> None:
    path = write(tmp_path / "casi.txt", a_row_for_every_filter())
    built = build(path, match_short_forms=dataset_of(tmp_path, "PT"))
    steps = built.account["steps"]
    assert [step["name"] for step in steps] == [*casi.FILTERS, "match-short-forms"]
    assert [step["removed"] for step in steps] == [1] * len(casi.FILTERS) + [2]
    assert built.account["n_rows"] - sum(step["removed"] for step in steps) == steps[-1]["left"] == 4
    assert [example.id for example in built.examples] == ["casi/1", "casi/2", "casi/3", "casi/4"]
    assert all(example.text[example.start : example.end] == "PT" for example in built.examples)
    assert [example.section for example in built.examples] == ["PLAN", "1. PLAN", None, "PLAN"]


def test_labels_that_differ_in_case_or_in_a_correction_are_one_sense(tmp_path: Path) -> None:
    built = build(
        write(tmp_path / "casi.txt", a_row_for_every_filter()), match_short_forms=dataset_of(tmp_path, "PT")
    )
    names = [sense.long_form for sense in built.inventory.senses("PT")]
    assert names == ["physical therapy", "prothrombin time"]


def test_rows_of_one_text_with_two_spellings_of_a_sense_are_no_duplicates(tmp_path: Path) -> None:
    labels = ("physical therapy", "Physical Therapy", "prothrombin time")
    path = write(tmp_path / "casi.txt", [published("seen by PT today", long_form=label) for label in labels])
    for skip in ([], ["single-sense"]):
        built = build(path, skip=skip)
        assert [each.long_form for each in built.examples] == [labels[0], labels[0], labels[2]]


def test_filters_can_be_left_out_except_those_that_make_an_example(tmp_path: Path) -> None:
    path = write(tmp_path / "casi.txt", a_row_for_every_filter())
    assert "MS" in build(path, skip=["single-sense"]).inventory
    assert "LA" in build(path, skip=["single-sense", "listed-long-forms"]).inventory
    with pytest.raises(ConfigError, match="'offsets'"):
        build(path, skip=["offsets"])


def dataset_of(folder: Path, short_form: str) -> Path:
    write_dataset(
        folder / "other.jsonl", [Example("e", short_form, 0, len(short_form), short_form, None, "x", "n")]
    )
    return folder / "other.jsonl"


def test_a_dataset_to_match_that_shares_no_short_form_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the 1 short forms"):
        build(
            write(tmp_path / "casi.txt", a_row_for_every_filter()),
            match_short_forms=dataset_of(tmp_path, "XX"),
        )


def test_canonical_forms_name_the_senses_and_sections_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "forms.csv").write_text(
        "sf,target_lf_sense,target_label\n"
        "PT,Physical Therapy;physical therapy;PT - x,physical therapy;physiotherapy\n"
        "PTT,prothrombin time,clotting time\n"
        "PT,prothrombin time,pro time; prothrombin time\n"
    )
    (tmp_path / "sections.csv").write_text("casi_section,mimic_section\n1. plan,ASSESSMENT AND PLAN\nPLAN,\n")
    built = build(
        write(tmp_path / "casi.txt", a_row_for_every_filter()),
        canonical_forms=tmp_path / "forms.csv",
        section_map=tmp_path / "sections.csv",
        match_short_forms=dataset_of(tmp_path, "PT"),
    )
    assert [(sense.long_form, sense.forms) for sense in built.inventory] == [
        ("physical therapy", ("physical therapy", "physiotherapy")),
        ("pro time", ("pro time", "prothrombin time")),
    ]
    assert [example.section for example in built.examples] == [None, "ASSESSMENT AND PLAN", None, None]
    assert built.account["sections"] == {"mapped to none": 2, "mapped": 1, "no section": 1}
    assert built.account["n_without_canonical_form"] == 0


def test_senses_with_one_name_are_merged_and_shared_forms_do_not_mix_senses(tmp_path: Path) -> None:
    rows = ["MP,A  b,meta;carpal", "MP,b,meta", "MP,carpal,carpal"]
    path = write(tmp_path / "forms.csv", ["sf,target_lf_sense,target_label", *rows])
    canonical = casi.load_canonical_forms(path)
    assert canonical["MP", "a b"] is canonical["MP", "b"]
    assert [canonical["MP", key].long_form for key in ("a b", "carpal")] == ["meta", "carpal"]
    assert ("XX", "b") not in canonical


def test_malformed_canonical_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        casi.load_canonical_forms(tmp_path / "nothing.csv")
    with pytest.raises(FormatError, match="no column 'target_lf_sense'"):
        casi.load_canonical_forms(write(tmp_path / "a.csv", ["sf,target_label"]))
    with pytest.raises(FormatError, match="line 2"):
        casi.load_canonical_forms(write(tmp_path / "b.csv", ["sf,target_lf_sense,target_label", "PT,x,"]))


# ---- real rows


@real_rows
def test_the_real_rows_are_read_and_nearly_all_offsets_hit() -> None:
    built = build(CASI / "rare_data.csv", skip=["single-sense", "listed-long-forms"])
    assert (built.account["report"]["n_read"], built.account["n_rows"]) == (190, 190)
    assert not built.account["report"]["skipped"]
    removed = {step["name"]: step["removed"] for step in built.account["steps"]}
    assert removed.pop("offsets") == 2  # both stand at the very end of their text
    assert set(removed.values()) == {0}
    assert built.account["end_offsets"] == {"inclusive": 154, "exclusive": 34}
    assert all(example.text[example.start : example.end] == "FSH" for example in built.examples)
    assert built.examples[0].id == "casi/16004"


@real_rows
def test_the_authors_list_takes_out_the_only_sense_of_the_real_rows() -> None:
    built = build(CASI / "rare_data.csv", skip=["single-sense"])
    removed = {step["name"]: step["removed"] for step in built.account["steps"] if step["removed"]}
    assert removed == {"listed-long-forms": 190}


@real_rows
def test_the_authors_canonical_forms_have_259_senses_of_62_short_forms() -> None:
    canonical = casi.load_canonical_forms(CASI / "labeled_sf_lf_map.csv")
    assert len(set(canonical.values())) == 259
    assert len({sense.short_form for sense in canonical.values()}) == 62
