"""From the bytes of a request to a checked message: bounded in time and memory, whatever the bytes are."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from lmcells.errors import InputError
from lmcells.service.messages import ManyNotes, Message, NoteMessage, OneNote
from lmcells.service.settings import ServiceSettings

NDJSON = "application/x-ndjson"
Asked = TypeVar("Asked", bound=Message)

_MAX_FIELDS = 64  # of an object: each unknown one would be an error of its own


def read_request(
    body: bytes | bytearray, content_type: str, options: Mapping[str, Any], settings: ServiceSettings
) -> OneNote | ManyNotes:
    """Check a body: one note, several, or one a line, to which `options` apply. InputError says what is wrong."""
    if content_type == NDJSON:
        return _read_lines(body, options, settings)
    given = _parsed(body)
    if not isinstance(given, dict):
        raise InputError("body: not a JSON object. Send one, with Content-Type: application/json.")
    if "notes" not in given:
        one = _checked(OneNote, given)
        check_length(one.text, "text", settings)
        return one
    if isinstance(given["notes"], list):
        _check_number(len(given["notes"]), settings)
    many = _checked(ManyNotes, given)
    for index, note in enumerate(many.notes):
        check_length(note.text, f"notes.{index}.text", settings)
    return many


def _read_lines(body: bytes | bytearray, options: Mapping[str, Any], settings: ServiceSettings) -> ManyNotes:
    lines = [line for line in body.split(b"\n") if line.strip()]
    _check_number(len(lines), settings)
    notes = []
    for number, line in enumerate(lines, start=1):
        place = f"line {number}"
        note = _checked(NoteMessage, _parsed(line, place), f"{place}: ")
        check_length(note.text, f"{place}: text", settings)
        notes.append(note)
    return ManyNotes(notes=tuple(notes), **options)


def _parsed(content: bytes | bytearray, place: str = "body") -> Any:
    try:
        given = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"{place}: not JSON: {error}.") from None
    _check_fields(given, place)
    return given


def _checked(kind: type[Asked], given: object, place: str = "") -> Asked:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        raise InputError(place + validation_detail(details)) from None


def _check_fields(given: object, place: str) -> None:
    """Refuse objects with a great many fields."""
    if isinstance(given, dict):
        if len(given) > _MAX_FIELDS:
            found = f"{place}: an object has {len(given):,} fields"
            raise InputError(f"{found}, allowed: {_MAX_FIELDS}. See /docs.")
        given = list(given.values())
    if isinstance(given, list):
        for value in given:
            _check_fields(value, place)


def _check_number(n_notes: int, settings: ServiceSettings) -> None:
    if n_notes > settings.max_notes:
        raise InputError(f"notes: found {n_notes:,}, allowed: {settings.max_notes:,}. Send them in parts.")


def check_length(text: str, place: str, settings: ServiceSettings) -> None:
    """Refuse the text of a note that is too long."""
    found, most = len(text), settings.max_note_length
    if found > most:
        raise InputError(f"{place}: found {found:,} characters, allowed: {most:,}. Send it in parts.")


def validation_detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first error by its place, without the value found there or any field name the client made up."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query")]
    if first["type"] == "extra_forbidden":
        message = f"{'.'.join(place[:-1]) or 'body'}: has an unknown field. See /docs."
    elif not place:
        message = "not a JSON object."
    else:
        message = f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}."
    more = len(errors) - 1
    return message + (f" And {more} more." if more else "")
