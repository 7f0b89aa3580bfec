"""FHIR resources as bulk export and servers write them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport, detect_format, read_notes

NO_CHARSETS = [f"text/plain; charset={name}" for name in ("undefined", "hex", "idna", "punycode", "none")]
TEXT = "HPI: Pt c/o SOB.\r\nPLAN: müde, r/o PE."


def attachment(text: str = TEXT, content_type: str | None = "text/plain", encoding: str = "utf-8") -> Any:
    data = base64.b64encode(text.encode(encoding)).decode()
    return {"data": data} | ({"contentType": content_type} if content_type else {})


def document(number: int, **fields: Any) -> dict[str, Any]:
    kind = {"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}
    return {
        "resourceType": "DocumentReference",
        "id": str(number),
        "status": "current",
        "type": kind,
        "content": [{"attachment": attachment()}],
        **fields,
    }


def report(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "resourceType": "DiagnosticReport",
        "id": str(number),
        "status": "final",
        "code": {"text": "CT chest"},
        "presentedForm": [attachment("pdf", "application/pdf"), attachment()],
        **fields,
    }


def read(path: Path) -> tuple[list[Note], ReadReport]:
    account = ReadReport()
    return list(read_notes(path, report=account)), account


def write_ndjson(path: Path, resources: list[Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in resources), encoding="utf-8")
    return path


def test_bulk_export_is_read_with_its_kinds(tmp_path: Path) -> None:
    path = write_ndjson(tmp_path / "DocumentReference.ndjson", [document(1), report(1)])
    assert detect_format(path) == "fhir"
    notes, account = read(path)
    assert notes == [
        Note("DocumentReference/1", TEXT, {"category": "Discharge summary"}),
        Note("DocumentReference/DiagnosticReport/1", TEXT, {"category": "CT chest"}),
    ]
    assert account.n_skipped == 0


def test_what_gives_no_text_is_skipped_with_its_reason(tmp_path: Path) -> None:
    by_url = {"attachment": {"contentType": "text/plain", "url": "Binary/7"}}
    resources = [
        {"resourceType": "Patient", "id": "1"},
        {"resourceType": {"of": ["another", "kind"]}, "id": "1"},
        document(2, status="entered-in-error"),
        document(3, content=[{"attachment": attachment("<p>", "text/html")}]),
        document(4, content=[by_url]),
        document(5, content=[{"attachment": {"contentType": "text/plain", "data": "not base64!"}}]),
        *(document(9, content=[{"attachment": attachment(content_type=each)}]) for each in NO_CHARSETS),
        document(6, content=[{"attachment": attachment(" ")}]),
        document(7, content="broken"),
        ["no", "resource"],
        document(8),
    ]
    path = write_ndjson(tmp_path / "notes.ndjson", resources)
    with path.open("a") as file:
        file.write("{broken\n")
    notes, account = read(path)
    assert [note.id for note in notes] == ["notes/DocumentReference/8"]
    assert account.skipped == {
        "resource of another type": 2,
        "marked as an error (status)": 1,
        "no plain-text attachment": 4 + len(NO_CHARSETS),
        "empty note": 1,
        "not a FHIR resource": 2,
    }


def test_a_bundle_over_many_lines_is_read(tmp_path: Path) -> None:
    bundle = {"resourceType": "Bundle", "entry": [{"resource": document(1)}, {"resource": report(2)}]}
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps(bundle, indent=2))
    assert [note.id for note in read(path)[0]] == ["bundle/DocumentReference/1", "bundle/DiagnosticReport/2"]


def test_the_charset_of_an_attachment_is_used(tmp_path: Path) -> None:
    content = [{"attachment": attachment(content_type="text/plain; charset=ISO-8859-1", encoding="latin-1")}]
    path = write_ndjson(tmp_path / "n.ndjson", [document(1, content=content)])
    assert read(path)[0][0].text == TEXT


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"resourceType": "Bundle",\n "entry": [', "damaged, or not JSON"),
        ('[\n{"resourceType": "DocumentReference"}\n]', "a JSON array"),
        ('[{"resourceType": "DocumentReference"}]\n', "a JSON array"),
    ],
)
@pytest.mark.parametrize("name", ["n.json", "n", "n.ndjson"])
def test_what_is_no_resource_is_refused(content: str, problem: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FormatError, match=f"is {problem}. Export FHIR as NDJSON, one resource per line, or"):
        read(path)


@pytest.mark.parametrize("name", ["n.json", "n"])
def test_the_type_of_a_resource_may_come_after_its_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    long = document(1, content=[{"attachment": attachment(TEXT * 200)}])
    path.write_text(json.dumps(long, sort_keys=True))
    assert read(path)[0][0].text == TEXT * 200
    long = document(1, content=[{"attachment": attachment(TEXT * 5000)}])
    path.write_text(json.dumps(long, sort_keys=True))
    with pytest.raises(FormatError, match=r"has FHIR resources\. Read it with --format fhir\."):
        read(path)
    (note,) = read_notes(path, format="fhir", report=ReadReport())
    assert note.text == TEXT * 5000
