"""FHIR: the plain text of DocumentReference and DiagnosticReport resources.

A file is NDJSON with one resource per line, as bulk export writes it, or a single resource or Bundle as JSON. The text
is that of the first text/plain attachment: by the standard, a document's attachments differ only in format.
"""

import base64
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError
from lmcells.notes.note import Note
from lmcells.notes.readers import opening
from lmcells.notes.readers.records import NoteFile

# The fields with the attachments and with the kind of document.
_RESOURCES = {"DocumentReference": ("content", "type"), "DiagnosticReport": ("presentedForm", "code")}
_WITHDRAWN = ("entered-in-error", "cancelled")
_NAMES_RESOURCE = re.compile(rb'"resourceType"\s*:\s*"')
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.-]+)", re.IGNORECASE)


def is_fhir(head: bytes) -> bool:
    """Whether the first line of a JSON file, or its first bytes, name a FHIR resource."""
    first_line = head.partition(b"\n")[0]
    return _NAMES_RESOURCE.search(head[: max(4096, len(first_line))]) is not None


def read_fhir(rows: NoteFile) -> Iterator[Note]:
    """Yield the notes of a FHIR file; other resources are counted as skipped."""
    with rows.open() as file:
        for line, resource in _resources(file, rows.path):
            found = _note(resource, rows, line) if isinstance(resource, dict) else "not a FHIR resource"
            if isinstance(found, str):
                rows.skip(found, line)
            else:
                yield from found


def _resources(file: io.BufferedReader, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each resource with its line; None for what is not JSON."""
    first = file.readline(opening.MAX_NOTE_CHARS)
    if not first:
        raise opening.EmptyFile(path)
    if (resource := _parse(first)) is None:  # one document over many lines
        resource = _parse(first + file.read(opening.MAX_NOTE_CHARS))
    if not isinstance(resource, dict):
        what = "a JSON array" if isinstance(resource, list) else "damaged, or not JSON"
        raise FormatError(
            f"{path} is {what}. Export FHIR as NDJSON, one resource per line, or as one resource or Bundle of at most "
            f"{opening.MAX_NOTE_CHARS:,} bytes."
        )
    yield from ((1, each) for each in _entries(resource))
    for number, line in enumerate(iter(lambda: file.readline(opening.MAX_NOTE_CHARS), b""), start=2):
        if not line.isspace():
            yield from ((number, each) for each in _entries(_parse(line)))


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return None


def _entries(resource: Any) -> Iterable[Any]:
    """The resources of a Bundle, or the resource itself."""
    if not isinstance(resource, dict) or resource.get("resourceType") != "Bundle":
        return [resource]
    return [each.get("resource") for each in _objects(resource.get("entry"))]


def _note(resource: dict[str, Any], rows: NoteFile, line: int) -> list[Note] | str:
    """Return the note of a resource, or why it has none."""
    kind = resource.get("resourceType")
    if not isinstance(kind, str) or kind not in _RESOURCES:
        return "resource of another type"
    if resource.get("status") in _WITHDRAWN or resource.get("docStatus") in _WITHDRAWN:
        return "marked as an error (status)"
    attachments, described = _RESOURCES[kind]
    found = [each.get("attachment", each) for each in _objects(resource.get(attachments))]
    text = _text([each for each in found if isinstance(each, dict)])
    if text is None:
        return "no plain-text attachment"
    found_id = resource.get("id")
    note_id = f"{kind}/{found_id}" if isinstance(found_id, str) and found_id.strip() else ""
    return rows.note(text, note_id, {"category": _name(resource.get(described))}, row=line, line=line)


def _text(attachments: list[dict[str, Any]]) -> str | None:
    for each in attachments:
        content_type, data = each.get("contentType"), each.get("data")
        is_plain = content_type is None or str(content_type).lower().startswith("text/plain")
        if is_plain and isinstance(data, str):
            try:
                content = base64.b64decode("".join(data.split()), validate=True)
                charset = _CHARSET.search(str(content_type))
                return content.decode(charset[1] if charset else "utf-8", "surrogateescape")
            except (LookupError, ValueError):  # no such charset, or not in it, or not in base64
                continue
    return None


def _name(concept: Any) -> str:
    if not isinstance(concept, dict):
        return ""
    names = [concept.get("text"), *(each.get("display") for each in _objects(concept.get("coding")))]
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
