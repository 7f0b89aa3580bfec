"""brat, doccano and Label Studio: what is written is read back with a library of the tool or by its rules."""

import json
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.ward import AWKWARD, ward_notes
from lmcells.errors import FormatError, InputError
from lmcells.expansion import Candidate, Expansion
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.annotate import annotate
from lmcells.integrations.exports import (
    LABELING_CONFIGURATION,
    AnnotatedNote,
    _file_name,
    document,
    export_brat,
    export_doccano,
    export_label_studio,
    export_notes,
    read_annotated,
    standoff,
)
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.note import Note
from note_files import write_jsonl


@pytest.fixture(scope="module")
def annotated(settings: ExpanderSettings, tmp_path_factory: pytest.TempPathFactory) -> list[AnnotatedNote]:
    """Twenty notes and what `annotate` wrote about them, one answer in some withheld."""
    folder = tmp_path_factory.mktemp("exports")
    notes = NoteFiles([write_jsonl(folder / "notes.jsonl", ward_notes(20))])
    unsure = replace(settings, threshold=0.52)
    annotate(notes, folder / "out.csv", expander=unsure)
    read = list(read_annotated(folder / "out.csv", notes))
    found = [expansion for each in read for expansion in each.expansions]
    assert any(each.abstained for each in found)
    assert any(each.long_form for each in found)
    return read


def expansion(start: int, end: int, long_form: str = "physical therapy") -> Expansion:
    return Expansion(start, end, "PT", None, long_form, 0.9, "model", (Candidate(long_form, 0.9, "C1"),))


# --- joining annotations and notes


def test_all_notes_are_there_with_what_was_found(annotated: list[AnnotatedNote]) -> None:
    assert [each.note.id for each in annotated] == [note["id"] for note in ward_notes(20)]
    assert annotated[3].expansions == ()
    written = [AWKWARD[each.start : each.end] for each in annotated[0].expansions]
    assert written == ["PT", "MS", "MS", "PT", "PT"]


def test_line_ends_are_plain_and_no_offset_moves() -> None:
    each = AnnotatedNote(Note("a/1", "PT\r\nPT\rPT\n\r\n"), ())
    assert each.text == "PT \nPT\nPT\n \n"


@given(st.text(alphabet="ab\r\n🩺"))
def test_texts_stay_as_long_as_they_were(text: str) -> None:
    plain = AnnotatedNote(Note("a/1", text), ()).text
    assert len(plain) == len(text)
    assert "\r" not in plain
    assert [at for at, each in enumerate(text) if each not in "\r\n"] == [
        at
        for at, (each, before) in enumerate(zip(plain, text, strict=True))
        if each != "\n" and before != "\r"
    ]


def annotations(path: Path, *rows: tuple[str, int, int]) -> Path:
    write_jsonl(path, [{"note_id": name, **expansion(start, end).to_dict()} for name, start, end in rows])
    return path


def test_notes_that_do_not_belong_to_the_annotations_are_refused(tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "n.jsonl", [{"id": "n/1", "text": "in PT"}])
    rows = annotations(tmp_path / "out.jsonl", ("n/1", 3, 5), ("n/2", 3, 5))
    with pytest.raises(InputError, match="expansions of 1 notes that were not found, the first is 'n/2'"):
        list(read_annotated(rows, NoteFiles([notes])))
    for places in ([("n/1", 3, 6)], [("n/1", 0, 4), ("n/1", 3, 5)]):
        with pytest.raises(
            InputError, match=r"overlaps another or lies outside the note .* each with its own id"
        ):
            list(read_annotated(annotations(tmp_path / "out.jsonl", *places), NoteFiles([notes])))
    twice = write_jsonl(tmp_path / "n.jsonl", [{"id": "n/1", "text": "in PT"}] * 2)
    with pytest.raises(FormatError, match="two notes have the id 'n/1'"):
        list(read_annotated(annotations(tmp_path / "out.jsonl", ("n/1", 3, 5)), NoteFiles([twice])))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("content", [b"secret \xff", b"secret\0" * 9, b"[" * 100_000, b"PAR1secretPAR1"])
def test_annotations_that_are_damaged_are_refused_in_one_line(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"note_id,candidates\n1,%s\n" % content if suffix == "csv" else content)
    with pytest.raises(FormatError, match=rf"x\.{suffix}(, row 1| is damaged)") as refused:
        list(read_annotated(path, NoteFiles([])))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("content", ["secret", '{"note_id": "a"}', "[1]", '{"note_id": 1, "candidates": 3}'])
def test_what_annotate_did_not_write_is_refused_without_a_word_of_it(tmp_path: Path, content: str) -> None:
    for suffix in ("jsonl", "csv"):
        path = tmp_path / f"x.{suffix}"
        path.write_text(f"{content}\n{content}\n")
        with pytest.raises(FormatError, match=r"x\.(jsonl|csv), row 1 ") as refused:
            list(read_annotated(path, NoteFiles([])))
        assert "secret" not in str(refused.value)
    with pytest.raises(FormatError, match=r"are \.jsonl, \.csv or \.parquet files"):
        list(read_annotated(tmp_path / "x.xml", NoteFiles([])))
    with pytest.raises(InputError, match="does not exist"):
        list(read_annotated(tmp_path / "absent.csv", NoteFiles([])))


# --- brat


def test_ids_that_leave_the_same_name_get_numbers_in_linear_time() -> None:
    taken: dict[str, int] = {}
    assert [_file_name(id_, taken) for id_ in ("a/x", "a x", "A?X", "a_x-2", "a_x-3", "é", "ü")] == [
        *("a_x", "a_x-2", "A_X-3", "a_x-2-2", "a_x-3-2", "note", "note-2")
    ]
    began = time.process_time()
    names = {_file_name(f"病歷/{chr(0x4E00 + n)}", taken) for n in range(20_000)}
    assert len(names) == 20_000
    assert time.process_time() - began < 5  # 100 s if all numbers were tried


TEXT_BOUND = re.compile(r"(T\d+)\t([A-Za-z0-9_-]+) (\d+ \d+(?:;\d+ \d+)*)\t([^\n\t]*)")
ATTRIBUTE = re.compile(r"A\d+\t([A-Za-z0-9_-]+) (T\d+) (\S+)")
ANNOTATOR_NOTE = re.compile(r"#\d+\tAnnotatorNotes (T\d+)\t([^\n\t]+)")


def read_standoff(text: str, lines: str) -> Iterator[tuple[str, str, list[tuple[int, int]], str]]:
    """Read brat's published standoff format strictly; -> id, type, spans and text of each entity."""
    known: set[str] = set()
    for line in lines.split("\n")[:-1]:
        if entity := TEXT_BOUND.fullmatch(line):
            spans = [(int(a), int(b)) for a, b in (span.split(" ") for span in entity[3].split(";"))]
            assert entity[1] not in known
            assert entity[4] == " ".join(text[a:b] for a, b in spans)
            assert all(a < b and "\n" not in text[a:b] for a, b in spans)
            known.add(entity[1])
            yield entity[1], entity[2], spans, entity[4]
        else:
            other = ATTRIBUTE.fullmatch(line) or ANNOTATOR_NOTE.fullmatch(line)
            assert other, line
            assert (other[2] if line.startswith("A") else other[1]) in known
    assert lines == "" or lines.endswith("\n")


def test_brat_reads_every_span_where_it_was(annotated: list[AnnotatedNote], tmp_path: Path) -> None:
    pybrat = pytest.importorskip(
        "pybrat.parser", reason="pybrat (a parser of brat's format) is not installed"
    )
    assert export_brat(annotated, tmp_path / "brat") == 20
    examples = {example.id: example for example in pybrat.BratParser().parse(tmp_path / "brat")}
    files = dict(line.split("\t") for line in (tmp_path / "brat" / "documents.tsv").read_text().splitlines())
    assert len(examples) == len(files) == 20
    by_note = {note_id: examples[name] for name, note_id in files.items()}
    for each in annotated:
        entities = by_note[each.note.id].entities
        starts_and_ends = [(e.start, e.end) for e in each.expansions]
        assert [(entity.start, entity.end) for entity in entities] == starts_and_ends
        for entity, found in zip(entities, each.expansions, strict=True):
            assert entity.mention == each.note.text[entity.start : entity.end]
            assert by_note[each.note.id].text[entity.start : entity.end] == entity.mention
            assert entity.type == ("Abstained" if found.abstained else "Acronym")


def test_brat_files_follow_the_published_format(annotated: list[AnnotatedNote], tmp_path: Path) -> None:
    export_brat(annotated, tmp_path / "brat")
    declared = (tmp_path / "brat" / "annotation.conf").read_text()
    groups = "entities relations events attributes".split()
    assert re.findall(r"^\[(\w+)\]$", declared, re.MULTILINE) == groups
    n_entities = 0
    for path in sorted((tmp_path / "brat").glob("*.ann")):
        text = path.with_suffix(".txt").read_bytes().decode()  # as it is, whatever the line ends
        for _, kind, _, _ in read_standoff(text, path.read_bytes().decode()):
            assert f"\n{kind}\n" in declared
            n_entities += 1
    assert n_entities == sum(len(each.expansions) for each in annotated)


@given(st.text(alphabet="aé🩺 \r\n\t", min_size=1), st.data())
def test_brat_spans_never_hold_a_line_end(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    each = AnnotatedNote(Note("a/1", text), (expansion(start, end),))
    if "\t" in text[start:end] or not each.text[start:end].strip("\n"):
        return  # no short form
    ((_, _, spans, _),) = read_standoff(each.text, "".join(standoff(each)))
    assert "".join(each.text[a:b] for a, b in spans) == each.text[start:end].replace("\n", "")


def test_brat_names_are_safe_and_distinct(tmp_path: Path) -> None:
    ids = ["../../etc/passwd", "a/b", "a_b", "A_B", "..", "é/ü", "x" * 500, "con\ttrol"]
    notes = [AnnotatedNote(Note(note_id, "PT"), ()) for note_id in ids]
    assert export_brat(notes, tmp_path / "out" / "brat") == len(ids)
    names = [path.stem for path in (tmp_path / "out" / "brat").glob("*.txt")]
    assert len({name.casefold() for name in names}) == len(ids)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["brat"]


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    def failing() -> Iterator[AnnotatedNote]:
        yield AnnotatedNote(Note("a/1", "PT"), (expansion(0, 2),))
        raise InputError("broken")

    for export, name in ((export_brat, "b"), (export_doccano, "d.jsonl"), (export_label_studio, "l.json")):
        with pytest.raises(InputError, match="broken"):
            export(failing(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# --- doccano


def test_doccano_can_import_what_is_written(annotated: list[AnnotatedNote], tmp_path: Path) -> None:
    """The rules of its importer: spans are [start, end, label] by code points, not empty and not overlapping."""
    assert export_doccano(annotated, tmp_path / "doccano.jsonl") == 20
    with (tmp_path / "doccano.jsonl").open("rb") as lines:
        documents = [json.loads(line) for line in lines]
    for read, each in zip(documents, annotated, strict=True):
        last = 0
        for start, end, label in read["label"]:
            assert last <= start < end <= len(read["text"])
            assert read["text"][start:end] == each.note.text[start:end]
            assert 1 <= len(label) <= 100
            last = end
        expected = [e.long_form or "abstained" for e in each.expansions]
        assert [label for _, _, label in read["label"]] == expected
        assert read["note_id"] == each.note.id
        assert isinstance(read["text"], str)


def test_doccano_labels_are_no_longer_than_it_takes() -> None:
    each = AnnotatedNote(Note("a/1", "PT"), (expansion(0, 2, "x" * 300),))
    assert document(each)["label"] == [[0, 2, "x" * 100]]


# --- Label Studio


def test_label_studio_accepts_tasks_and_predictions(annotated: list[AnnotatedNote], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own, of its dependencies
        sdk = pytest.importorskip(
            "label_studio_sdk.label_interface", reason="label-studio-sdk is not installed"
        )
    assert export_label_studio(annotated, tmp_path / "tasks.json") == 20
    configuration = (tmp_path / "tasks.xml").read_text()
    assert configuration == LABELING_CONFIGURATION
    interface = sdk.LabelInterface(configuration)
    interface.validate()
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    for task, each in zip(tasks, annotated, strict=True):
        assert interface.validate_task({"data": task["data"]})
        (prediction,) = task["predictions"]
        assert interface.validate_prediction(prediction, return_errors=True) == []
        regions = [region for region in prediction["result"] if region["type"] == "labels"]
        places = [(region["value"]["start"], region["value"]["end"]) for region in regions]
        assert places == [(found.start, found.end) for found in each.expansions]
        for region in regions:
            value = region["value"]
            assert task["data"]["text"][value["start"] : value["end"]] == value["text"]
            assert value["text"] == each.note.text[value["start"] : value["end"]]
        long_forms = {
            region["id"]: region["value"]["text"] for region in prediction["result"] if region not in regions
        }
        assert [*long_forms.values()] == [[found.long_form] for found in each.expansions if found.long_form]
        assert long_forms.keys() <= {region["id"] for region in regions}
    broken = json.loads(json.dumps(tasks[0]["predictions"][0]))
    broken["result"][0]["value"]["labels"] = ["Unheard"]
    assert interface.validate_prediction(broken, return_errors=True) != []


def test_label_studio_sorts_by_the_least_sure(annotated: list[AnnotatedNote], tmp_path: Path) -> None:
    export_label_studio(annotated, tmp_path / "tasks.json")
    for task, each in zip(json.loads((tmp_path / "tasks.json").read_text()), annotated, strict=True):
        best = [found.candidates[0].probability for found in each.expansions]
        assert task["predictions"][0].get("score") == min(best, default=None)
    assert export_label_studio([], tmp_path / "none.json") == 0
    assert json.loads((tmp_path / "none.json").read_text()) == []


def test_the_text_of_given_sections_can_be_written_out(settings: ExpanderSettings, tmp_path: Path) -> None:
    sections = [{"header": "PLAN", "text": "in PT"}, {"header": None, "text": "MS\r\ntoo"}]
    notes = NoteFiles([write_jsonl(tmp_path / "n.jsonl", [{"id": "1", "sections": sections}])])
    annotate(notes, tmp_path / "out.jsonl", expander=settings)
    assert export_notes(read_annotated(tmp_path / "out.jsonl", notes), tmp_path / "notes.jsonl") == 1
    (row,) = map(json.loads, (tmp_path / "notes.jsonl").read_text().splitlines())
    assert row["text"] == "PLAN:\nin PT\nMS\r\ntoo\n"
    assert row["sections"] == [[0, 12, "PLAN"], [12, len(row["text"]), None]]
    found = [row["text"][each["start"] : each["end"]] for each in row["expansions"]]
    assert found == ["PT", "MS"]
