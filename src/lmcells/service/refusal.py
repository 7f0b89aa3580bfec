"""Errors as answers: one line of JSON, {"detail": ...}, that never quotes a note."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from lmcells.errors import InputError

_PLACES = frozenset({"body", "query", "one", "many"})  # where, and which of the two requests


def refusal(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
) -> JSONResponse:
    """Return an error; `closes` where the rest of the request is not worth reading."""
    return JSONResponse(
        {"detail": detail}, status, {**(headers or {}), **({"Connection": "close"} if closes else {})}
    )


async def refuse_input(_: Request, error: Exception) -> JSONResponse:
    """What the library refuses: sections out of order, senses that contradict the inventory."""
    assert isinstance(error, InputError)
    return refusal(422, str(error))


async def refuse_request(_: Request, error: Exception) -> JSONResponse:
    """What is not as the schema says."""
    assert isinstance(error, RequestValidationError)
    return refusal(422, validation_detail(error.errors()))


async def refuse_status(_: Request, error: Exception) -> JSONResponse:
    """Unknown paths, wrong methods, bodies that are no text."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, str(error.detail), headers=error.headers)


def validation_detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Say what is wrong first, by its place; never with what was found there, nor with names that were made up."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in _PLACES]
    if first["type"] == "extra_forbidden":
        message = f"{'.'.join(place[:-1]) or 'body'}: has a field that is not known. See /openapi.json."
    elif first["type"] == "json_invalid":
        message = f"body: not JSON (character {place[-1]})."
    elif not place:
        message = "body: not a JSON object. Send one, with Content-Type: application/json."
    else:
        message = f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}."
    more = len(errors) - 1
    return message + (f" And {more} more." if more else "")
