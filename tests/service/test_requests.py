"""From bytes to a request: what is not as described is refused, in one line, in bounded time and memory."""

import json
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from lmcells.errors import InputError
from lmcells.service import ServiceSettings
from lmcells.service.messages import ManyNotes, OneNote
from lmcells.service.requests import read_lines, read_request
from service.serving import SECRET

MOST = 29_000  # values: more are refused before they get here


SETTINGS = ServiceSettings(max_note_length=100, max_notes=1_000)


def read(given: Any) -> OneNote | ManyNotes:
    return read_request(given if isinstance(given, bytes) else json.dumps(given).encode(), SETTINGS)


def test_one_note_several_notes_and_lines_are_read() -> None:
    assert read({"text": "PT", "explain": [3]}) == OneNote(text="PT", explain=(3,))
    assert isinstance(read({"notes": [{"text": "PT"}]}), ManyNotes)
    content = b'{"text": "PT"}\n\n{"id": "b", "text": "MS"}\r\n'
    lines, mistakes = read_lines(content, SETTINGS, {"explain": True})
    assert ([note.text for note in lines.notes], lines.explain, mistakes) == (["PT", "MS"], True, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": None},
        {"notes": {"text": "PT"}},
        {"text": "PT", "explain": "yes"},
        {"text": "PT", "explain": [-1]},
        {"text": "PT", "explain": list(range(201))},
        {"text": "PT", "expanded_text": "html"},
        {"text": "PT", "sections": [{"start": "0", "end": 1}]},
        {"text": "PT", "sections": [{"start": -1, "end": 1}]},
        {"text": "PT", "sections": [{"start": 0.5, "end": 1}]},
        {"text": "PT", "sections": [{"start": True, "end": 1}]},
        {"text": "PT", "sections": [{"start": 0, "end": 1, "header": "P" * 501}]},
        {"text": "PT", "inventory": {"add": [{"short_form": "P" * 51, "long_form": "x"}]}},
        {"text": "PT", "inventory": {"rules": [{"short_form": "PT", "long_form": "x", "ward": 2}]}},
        {"text": "PT", "inventory": {"rules": [{"short_form": "PT", "long_form": "x", "where": ["ward"]}]}},
        {"text": "PT", "inventory": {"rules": [{"short_form": "PT", "long_form": "x", "action": "drop"}]}},
        b'{"text": "\\ud800"}',
        b'{"text": NaN}',
    ],
)
def test_what_is_not_as_described_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        read(wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "PT", "notes": []}, "body: has both text and notes. Send one of them."),
        (
            {"text": "PT", "metadata": "Echo"},
            "metadata: it must be an object, such as {'category': 'Echo'}.",
        ),
        (
            {"text": "PT", "metadata": {"ward": 7}},
            "metadata: its values must be strings, such as 'Echo' or '7'.",
        ),
        (
            {"text": "PT", "inventory": {"rules": [{"short_form": "PT", "actoin": "forbid"}]}},
            "inventory.rules.0: 'actoin' looks like a misspelt 'action'. "
            "Correct it; if it is other metadata, give it in 'where'.",
        ),
        (
            {"text": "PT", "inventory": {"add": [{"short_form": " ", "long_form": "x"}]}},
            "inventory.add.0.short_form: is blank. Write at least one letter or digit.",
        ),
    ],
)
def test_a_line_says_what_to_do(given: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        read(given)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("line", "said", "id_"),
    [
        (b"[]", "line 3: not a JSON object.", None),
        (b"{", "line 3: not JSON: ", None),
        (b'{"id": "b", "text": 1}', "line 3: text: Input should be a valid string.", "b"),
        (b'{"id": 2, "text": "PT"}', "line 3: id: Input should be a valid string.", None),
        (b'{"text": "' + b"x" * 101 + b'"}', "line 3: text: found 101 characters, allowed: 100.", None),
    ],
)
def test_a_wrong_line_is_named_and_the_others_are_read(line: bytes, said: str, id_: str | None) -> None:
    notes, mistakes = read_lines(b'{"text": "PT"}\n\n' + line + b'\n{"text": "MS"}', SETTINGS, {})
    assert [note.text for note in notes.notes] == ["PT", "", "MS"]
    assert mistakes.keys() == {1}
    assert mistakes[1].startswith(said)
    assert notes.notes[1].id == id_


@pytest.mark.parametrize(
    "hostile",
    [
        {"text": "PT", "inventory": {"add": [{}] * MOST}},
        {"text": "PT", "inventory": {"remove": [SECRET] * MOST}},
        {"notes": [{"text": ""}] * MOST},
        {"notes": [{"text": 1, "a": 1, "b": 1}] * 900},
        {f"{SECRET}{number}": number for number in range(MOST)},
        {"notes": [{"text": "", "sections": [{"start": 0, "end": 0, "header": "x"}] * 9}] * 900},
        {"text": [[]] * MOST},
    ],
)
def test_whatever_the_body_time_and_memory_are_bounded(hostile: Any) -> None:
    content = json.dumps(hostile).encode()
    tracemalloc.start()
    start = time.perf_counter()
    said = ""
    try:
        read(content)
    except InputError as error:
        said = str(error)
    assert SECRET not in said
    assert time.perf_counter() - start < 5  # a fraction of a second, but for the tracing
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000


@pytest.mark.parametrize("unit", [b"\n", b"  \n", b"x\n"])
def test_millions_of_lines_take_no_memory(unit: bytes) -> None:
    content = unit * (1_000_000 // len(unit))
    tracemalloc.start()
    with suppress(InputError):  # too many notes
        read_lines(content, SETTINGS, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
