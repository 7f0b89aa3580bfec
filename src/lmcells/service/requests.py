"""Turn the bytes of a request into a checked message, in bounded time and memory whatever the bytes are."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request

from lmcells.errors import InputError
from lmcells.service.messages import ManyNotes, Message, NoteMessage, OneNote
from lmcells.service.settings import ServiceSettings

NDJSON = "application/x-ndjson"
Asked = TypeVar("Asked", bound=Message)

_MAX_FIELDS = 64  # of an object: each unknown one would be an error of its own


def read_request(body: bytes | bytearray, settings: ServiceSettings) -> OneNote | ManyNotes:
    """Check a body with one note, or several. InputError says what is wrong."""
    given = _parsed(body)
    if not isinstance(given, dict):
        raise InputError("body: not a JSON object. Send one, with Content-Type: application/json.")
    if "notes" in given and "text" in given:
        raise InputError("body: has both text and notes. Send one of them.")
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


def read_lines(
    body: bytes | bytearray, settings: ServiceSettings, options: Mapping[str, Any]
) -> tuple[ManyNotes, dict[int, str]]:
    """Check a body with one note per line, to which `options` apply; also return the errors of notes by their index.

    A note with an error is replaced by an empty one, with the same id if it has one.
    """
    _check_number(sum(1 for _ in _lines(body)), settings)
    notes: list[NoteMessage] = []
    mistakes: dict[int, str] = {}
    for number, line in _lines(body):
        place = f"line {number}"
        given: Any = None
        try:
            given = _parsed(line, place)
            note = _checked(NoteMessage, given, f"{place}: ")
            check_length(note.text, f"{place}: text", settings)
        except InputError as error:
            mistakes[len(notes)] = str(error)
            id_ = given.get("id") if isinstance(given, dict) else None
            note = NoteMessage(text="", id=id_ if isinstance(id_, str) else None)
        notes.append(note)
    return ManyNotes(notes=tuple(notes), **options), mistakes


def _lines(body: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers, one at a time: there may be millions."""
    return ((number, line) for number, line in enumerate(BytesIO(body), start=1) if line.strip())


def json_body(kind: type[Asked]) -> Callable[[Request], Awaitable[Asked]]:
    """Return a dependency that reads the body of a request; a browser sends application/json only to its own site."""

    async def read(request: Request) -> Asked:
        require_type(request, "application/json")
        return _checked(kind, _parsed(await request.body()))

    return read


def require_type(request: Request, *allowed: str) -> str:
    """Return the content type of a request, without its parameters; 415 if it is none of those allowed."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in allowed:
        detail = f"Content-Type: not supported; allowed: {' or '.join(allowed)}."
        raise HTTPException(415, detail)
    return content_type


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
    found, most = len(text), settings.max_note_length
    if found > most:
        raise InputError(f"{place}: found {found:,} characters, allowed: {most:,}. Send it in parts.")


def validation_detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first error by its location, without the value found there or any unknown field name."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    if first["type"] == "extra_forbidden":
        message = f"{'.'.join(place[:-1]) or 'body'}: has an unknown field. See /docs."
    elif first["type"] == "string_pattern_mismatch":
        message = f"{'.'.join(place)}: is blank. Write at least one letter or digit."
    elif not place:
        message = "not a JSON object."
    else:
        message = f"{'.'.join(place)}: {_said(first['msg'])}."
    more = len(errors) - 1
    return message + (f" And {more} more." if more else "")


def _said(message: str) -> str:
    """Return what pydantic says, in the words of JSON."""
    return message.removeprefix("Value error, ").removesuffix(".").replace("a valid tuple", "an array")
