"""From the bytes of a request to a checked message: bounded in time and memory, whatever the bytes are."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from lmcells.errors import InputError
from lmcells.service.messages import ManyNotes, NoteMessage, OneNote
from lmcells.service.settings import ServiceSettings

NDJSON = "application/x-ndjson"

_MAX_FIELDS = 64  # of an object: each unknown one would be an error of its own
_AT_ONCE = 4_096  # bytes that are checked faster than a thread is woken


class RequestReader:
    """Parses and checks bodies; large ones in a thread, one after the other, so that the event loop goes on."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lmcells-reader")

    async def __call__(
        self, body: bytes | bytearray, content_type: str, options: Mapping[str, Any]
    ) -> OneNote | ManyNotes:
        """Return the request; `options` are for notes that come one a line. InputError says what is wrong."""
        given = body, content_type, options, self._settings
        if len(body) <= _AT_ONCE:
            return read_request(*given)
        return await asyncio.get_running_loop().run_in_executor(self._thread, read_request, *given)


def read_request(
    body: bytes | bytearray, content_type: str, options: Mapping[str, Any], settings: ServiceSettings
) -> OneNote | ManyNotes:
    """Check a body: one note, several, or one a line."""
    try:
        if content_type == NDJSON:
            return _read_lines(body, options, settings)
        given = _parsed(body)
        if not isinstance(given, dict):
            raise InputError("body: not a JSON object. Send one, with Content-Type: application/json.")
        _check_fields(given)
        if "notes" not in given:
            one = OneNote.model_validate(given)
            check_length(one.text, "text", settings)
            return one
        if isinstance(given["notes"], list):
            _check_number(len(given["notes"]), settings)
        many = ManyNotes.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        raise InputError(validation_detail(details)) from None
    for index, note in enumerate(many.notes):
        check_length(note.text, f"notes.{index}.text", settings)
    return many


def _read_lines(body: bytes | bytearray, options: Mapping[str, Any], settings: ServiceSettings) -> ManyNotes:
    lines = [line for line in body.split(b"\n") if line.strip()]
    _check_number(len(lines), settings)
    notes = []
    for number, line in enumerate(lines, start=1):
        place = f"line {number}"
        given = _parsed(line, place)
        _check_fields(given, place)
        try:
            note = NoteMessage.model_validate(given)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            raise InputError(f"{place}: {validation_detail(details)}") from None
        check_length(note.text, f"{place}: text", settings)
        notes.append(note)
    return ManyNotes(notes=tuple(notes), **options)


def _parsed(content: bytes | bytearray, place: str = "body") -> Any:
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"{place}: not JSON: {error}.") from None


def _check_fields(given: object, place: str = "body") -> None:
    """Refuse objects with a great many fields."""
    if isinstance(given, dict):
        if len(given) > _MAX_FIELDS:
            raise InputError(
                f"{place}: an object has {len(given):,} fields, allowed: {_MAX_FIELDS}. See /docs."
            )
        for value in given.values():
            _check_fields(value, place)
    elif isinstance(given, list):
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
