"""Whole notes with marked short forms, scored end to end."""

import json
from pathlib import Path
from typing import Any

import pytest

import lmcells
from lmcells.errors import FormatError, InputError
from lmcells.evaluation import marked_notes, whole_notes
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.layers import shipped_inventory
from lmcells.notes.readers import ReadReport

TEXT = "Pt s/p CVA, exam ok, PT x3, OR none."
INVENTORY = SenseInventory.from_senses(
    [
        Sense("CVA", "cerebrovascular accident", ("cerebrovascular accident", "stroke")),
        Sense("PT", "physical therapy"),
    ]
)


def mark(written: str, kind: str, *senses: str) -> marked_notes.Mark:
    start = TEXT.index(written)
    return marked_notes.Mark(start, start + len(written), kind, senses)


def answer(written: str, long_form: str | None, probability: float = 0.9) -> Expansion:
    start = TEXT.index(written)
    candidates = (Candidate(long_form or "?", probability),)
    reason = None if long_form else "low_confidence"
    return Expansion(
        start,
        start + len(written),
        written,
        None,
        long_form,
        probability if long_form else None,
        "model",
        candidates,
        reason,
    )


NOTE = marked_notes.MarkedNote(
    "n1",
    TEXT,
    (
        mark("Pt", "short_form", "patient"),
        mark("s/p", "short_form", "status post"),
        mark("CVA", "short_form", "stroke"),
        mark("exam", "everyday"),
        mark("PT", "short_form", "physical therapy"),
        mark("x3", "short_form", "times"),
        mark("OR", "none"),
    ),
)


def test_each_answer_is_judged_by_the_rule() -> None:
    given = [
        answer("Pt", "patients"),
        answer("CVA", "cerebrovascular accident"),
        answer("exam", "examination"),
        answer("PT", None),
        answer("x3", "times three"),
        answer("OR", "operating room"),
        answer("none", "nothing", 0.4),
    ]
    outcomes = whole_notes.judge(NOTE, given, marked_notes.Meanings(INVENTORY))
    assert [(TEXT[o.start : o.end], o.verdict) for o in outcomes] == [
        ("Pt", "right"),
        ("s/p", "missed"),
        ("CVA", "right"),
        ("exam", "neutral"),
        ("PT", "unsure"),
        ("x3", "right"),
        ("OR", "false"),
        ("none", "false"),
    ]
    scores = whole_notes.summarize("m", [outcomes, outcomes])
    assert scores.counts == {
        "right": 6,
        "wrong": 0,
        "false": 4,
        "unsure": 2,
        "missed": 2,
        "neutral": 2,
        "short_forms": 10,
    }
    assert scores.rates["precision"] == {"value": 0.6, "low": 0.6, "high": 0.6}
    assert scores.rates["recall"]["value"] == 0.6
    at_half = next(row for row in scores.thresholds if row["probability"] == 0.5)
    assert at_half == {"probability": 0.5, "answered": 8, "precision": 0.75, "recall": 0.6}


@pytest.mark.parametrize(
    ("said", "meant", "same"),
    [
        ("hospitalized", "hospitalised", True),
        ("follow up", "follow-up", True),
        ("medications", "medication", True),
        ("stroke", "cerebrovascular accident", True),  # by the inventory
        ("times three", "times", True),
        ("drug history", "dermatitis herpetiformis", False),
        ("hypertension", "hypotension", False),
    ],
)
def test_wordings_of_one_meaning_count_as_one(said: str, meant: str, same: bool) -> None:
    assert marked_notes.Meanings(INVENTORY).same(said, [meant]) is same


def test_three_formats_are_read_and_bad_rows_are_named_and_skipped(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "text": "Pt ok",
        "mentions": [{"start": 0, "end": 2, "kind": "short_form", "senses": ["patient"]}],
    }
    lines = tmp_path / "notes.jsonl"
    lines.write_text(json.dumps(row) + "\n{broken\n" + json.dumps({**row, "mentions": [{"start": 9}]}) + "\n")
    report = ReadReport()
    expected = (marked_notes.Mark(0, 2, "short_form", ("patient",)),)
    assert [note.marks for note in marked_notes.read_marked_notes(lines, report=report)] == [expected]
    assert (report.n_read, report.n_skipped) == (1, 2)

    (tmp_path / "brat").mkdir()
    (tmp_path / "brat/a.txt").write_text("Pt ok")
    (tmp_path / "brat/a.ann").write_text("T1\tAcronym 0 2\tPt\n#1\tAnnotatorNotes T1\tpatient\n")
    assert [
        note.marks for note in marked_notes.read_marked_notes(tmp_path / "brat", report=ReadReport())
    ] == [expected]

    label = {"id": "r", "type": "labels", "value": {"start": 0, "end": 2, "labels": ["Acronym"]}}
    text = {"id": "r", "type": "textarea", "value": {"start": 0, "end": 2, "text": ["patient"]}}
    task = {"id": 1, "data": {"text": "Pt ok", "note_id": "a"}, "annotations": [{"result": [label, text]}]}
    export = tmp_path / "tasks.json"
    export.write_text(json.dumps([task]))
    assert [note.marks for note in marked_notes.read_marked_notes(export, report=ReadReport())] == [expected]

    relation = {"type": "relation", "from_id": "r", "to_id": "r", "direction": "right"}
    answer = {"id": "c", "type": "choices", "value": {"choices": ["easy"]}}
    task["annotations"] = [{"result": [relation, label, text, answer]}]
    export.write_text(json.dumps([task]), encoding="utf-8-sig")
    assert [note.marks for note in marked_notes.read_marked_notes(export, report=ReadReport())] == [expected]


def test_marks_in_text_with_carriage_returns_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"HPI:\r\nPT today\r\n")
    (tmp_path / "a.ann").write_text("T1\tAcronym 6 8\tPT\n#1\tAnnotatorNotes T1\tphysical therapy\n")
    (note,) = marked_notes.read_marked_notes(tmp_path, report=ReadReport())
    assert [note.text[mark.start : mark.end] for mark in note.marks] == ["PT"]


def test_probabilities_stay_honest_where_senses_are_missing() -> None:
    sentences = Path(__file__).parents[2] / "benchmarks" / "data" / "everyday_sentences_dev.jsonl"
    marked = list(marked_notes.read_marked_notes(sentences, report=ReadReport()))[:120]
    error = whole_notes.calibration_error_without_senses("default", marked, shipped_inventory())
    assert error is not None
    assert 0 < error < 0.15


def test_notes_without_an_answer_have_scores_and_no_calibration_error(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text(json.dumps({"id": "a", "text": "fine.", "mentions": []}))
    given: dict[str, Any] = {"notes": tmp_path / "notes.jsonl", "inventory": INVENTORY}
    (scores,) = whole_notes.evaluate_notes(["default"], **given, take_out=True)
    assert scores.n_notes == 1
    assert scores.calibration_error_without_a_fifth is None


GOOD = {"start": 0, "end": 2, "kind": "short_form", "senses": ["patient"]}
REGION = {"id": "1", "type": "labels", "value": {"start": 0, "end": 2, "labels": ["none"]}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mentions": [GOOD | {"senses": [1]}]}, "TypeError"),
        ({"mentions": [GOOD | {"start": 0.5}]}, "TypeError"),
        ({"mentions": [GOOD | {"end": True}]}, "TypeError"),
        ({"mentions": [[]]}, "TypeError"),
        ({"mentions": ["x"]}, "TypeError"),
        ({"mentions": 1}, "TypeError"),
        ({"text": None}, "TypeError"),
        ({"annotations": []}, "IndexError"),
        (
            {"annotations": [{"result": [REGION | {"value": {"start": 0, "end": 2, "labels": [1]}}]}]},
            "AttributeError",
        ),
        ({"annotations": [{"result": [REGION]}], "data": []}, "AttributeError"),
    ],
)
def test_a_note_that_is_not_marked_as_it_should_be_is_skipped(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    is_task = "annotations" in change
    whole = {"data": {"text": TEXT}} if is_task else {"id": "1", "text": TEXT, "mentions": [GOOD]}
    path = tmp_path / ("tasks.json" if is_task else "marked.jsonl")
    path.write_text(json.dumps([whole | change] if is_task else whole | change))
    report = ReadReport()
    assert list(marked_notes.read_marked_notes(path, report=report)) == []
    assert report.skipped == {f"not a marked note ({reason})": 1}


@pytest.mark.parametrize(
    "content", [b"\xff secret", b'{"text": "secret"}', b"1", b"null", b'"secret"', b"[" * 100_000]
)
def test_an_export_that_is_no_list_of_tasks_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"tasks\.json is not (JSON in UTF-8|a list of tasks)") as refused:
        list(marked_notes.read_marked_notes(tmp_path / "tasks.json", report=ReadReport()))
    assert "secret" not in str(refused.value)


def test_lines_that_are_not_text_or_too_deep_are_refused_or_skipped(tmp_path: Path) -> None:
    path, report = tmp_path / "marked.jsonl", ReadReport()
    path.write_text("[" * 100_000)
    assert list(marked_notes.read_marked_notes(path, report=report)) == []
    assert report.skipped == {"not a marked note (RecursionError)": 1}
    path.write_bytes(b"\xff secret")
    with pytest.raises(FormatError, match=r"marked\.jsonl is not text in UTF-8\."):
        list(marked_notes.read_marked_notes(path, report=report))


@pytest.mark.parametrize(
    "last", [b'{"model": "dictionary", "id": "x", "outc', b'{"id": "caf\xc3', b"[]", b'{"outcomes": 3}']
)
def test_an_evaluation_goes_on_where_a_full_disk_stopped_it(tmp_path: Path, last: bytes) -> None:
    notes, outcomes = tmp_path / "notes.jsonl", tmp_path / "outcomes.jsonl"
    mark = {"start": 7, "end": 10, "kind": "short_form", "senses": ["cerebrovascular accident"]}
    notes.write_text(
        "".join(json.dumps({"id": id_, "text": TEXT, "mentions": [mark]}) + "\n" for id_ in ("a", "é"))
    )
    given: dict[str, Any] = {"models": ["dictionary"], "notes": notes, "outcomes": outcomes}
    first = whole_notes.evaluate_notes(**given)
    outcomes.write_bytes(outcomes.read_bytes().partition(b"\n")[0] + b"\n" + last)
    assert whole_notes.evaluate_notes(**given, resume=True) == first


@pytest.mark.parametrize("changed", ["note", "inventory", "model", "version of lmcells"])
def test_verdicts_on_other_notes_or_by_another_model_are_not_reused(
    tmp_path: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, outcomes = tmp_path / "notes.jsonl", tmp_path / "outcomes.jsonl"
    mark = {"start": 7, "end": 10, "kind": "short_form", "senses": ["cerebrovascular accident"]}
    row = {"id": "a", "text": TEXT, "mentions": [mark]}
    notes.write_text(json.dumps(row))
    given: dict[str, Any] = {"models": ["dictionary"], "notes": notes, "outcomes": outcomes}
    whole_notes.evaluate_notes(**given, inventory=INVENTORY)
    if changed == "note":
        notes.write_text(json.dumps(row | {"text": TEXT.replace("CVA", "MIs")}))
    elif changed == "model":
        monkeypatch.setattr(whole_notes, "sha256", lambda _: "of other weights")
    elif changed == "version of lmcells":
        monkeypatch.setattr(lmcells, "__version__", "0")
    inventory = shipped_inventory() if changed == "inventory" else INVENTORY
    with pytest.raises(InputError, match=rf"--resume: .* was made with another {changed}\. Use the same"):
        whole_notes.evaluate_notes(**given, inventory=inventory, resume=True)


def test_two_notes_of_one_id_keep_their_own_verdicts(tmp_path: Path) -> None:
    notes, outcomes = tmp_path / "notes.jsonl", tmp_path / "outcomes.jsonl"
    mark = {"start": 7, "end": 10, "kind": "short_form", "senses": ["cerebrovascular accident"]}
    rows = [{"id": "a", "text": text, "mentions": [mark]} for text in (TEXT, TEXT.replace("CVA", "xyz"))]
    notes.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given: dict[str, Any] = {"models": ["dictionary"], "notes": notes, "outcomes": outcomes}
    first = whole_notes.evaluate_notes(**given)
    assert whole_notes.evaluate_notes(**given, resume=True) == first
