"""The notes that must stay out of a corpus, such as those a test set was made from."""

import json
from collections.abc import Iterator
from pathlib import Path

from lmcells.errors import FormatError, InputError


def read_excluded_ids(path: Path) -> frozenset[str]:
    """Read ids, one a line; or a dataset in JSON lines, whose `note_id` are meant."""
    try:
        with path.open(encoding="utf-8") as lines:
            ids = frozenset(_ids(path, lines))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"exclude list {path} cannot be read: {error.__class__.__name__}.") from None
    if not ids:
        raise FormatError(f"exclude list {path} holds no id. Write one id a line, such as mimic3/1234.")
    return ids


def _ids(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("{"):
            try:
                yield str(json.loads(line)["note_id"])
            except (ValueError, KeyError):
                raise FormatError(
                    f"exclude list {path}, line {number}: not a JSON object with a 'note_id'. "
                    "Write ids one a line, or give a dataset."
                ) from None
        elif line:
            yield line
