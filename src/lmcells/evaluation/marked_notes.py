"""Whole notes with marked short forms, and whether two wordings mean the same.

    {"id", "text", "mentions": [{"start", "end", "kind", "senses"}]}

A mark of kind `short_form` has its accepted wordings as `senses`; the other kinds only look like short forms.

Two wordings mean the same when they agree up to case, hyphens, word order, function words and inflection, when the
inventory lists them as forms of one sense, or when the mark lists both. A count may include its value: "times six" is
right for "times".
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmcells.errors import FormatError
from lmcells.expansion.inventory import SenseInventory
from lmcells.notes.readers import ReadReport

SHORT_FORM, NONE = "short_form", "none"
KINDS = (SHORT_FORM, NONE, "code", "compound", "everyday", "unit_or_title", "unclear")

Row = dict[str, Any]  # {"id", "text", "mentions"}, or one of its mentions

_FUNCTION_WORDS = frozenset("a an and by for in of on or the to with".split())
# After four letters or more; the longest that fits.
_SUFFIX = re.compile(
    "(?<=....)(?:i[zs]ations?|i[zs]ed|ations?|ically|ings?|ional|ie[sd]|ous|ical|ic|ions?|e[sd]|al|ly|u[ms]|is|ia|[asye])$"
)
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a reader marked at `text[start:end]`."""

    start: int
    end: int
    kind: str
    senses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkedNote:
    """A note with its marks, in order."""

    id: str
    text: str = field(repr=False)  # patient data: never in a log or a traceback
    marks: tuple[Mark, ...]


def read_marked_notes(path: Path, *, report: ReadReport) -> Iterator[MarkedNote]:
    """Yield marked notes: our JSON lines, a brat folder (.txt with .ann), or a Label Studio export (.json).

    In brat and Label Studio a region's label is its kind (any other label is a short form), and its text note or
    text area has the senses, separated by ";". A bad row is counted with its position and reason, and skipped.
    """
    read: Callable[[Any], Any]
    rows: Iterable[Any]
    try:
        if path.is_dir():
            texts = (each for each in sorted(path.glob("*.txt")) if each.with_suffix(".ann").is_file())
            rows, read = texts, _read_brat
        elif path.suffix == ".json":
            rows, read = json.loads(path.read_text("utf-8-sig")), _read_task
        else:
            rows, read = path.read_text("utf-8-sig").split("\n"), json.loads
    except (ValueError, RecursionError):
        raise FormatError(f"{path} is not {'JSON' if path.suffix == '.json' else 'text'} in UTF-8.") from None
    if isinstance(rows, str | int | float | dict | None):
        raise FormatError(f"{path} is not a list of tasks, as Label Studio exports them.")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str) and not row.strip():
            continue
        try:
            yield _marked_note(read(row))
            report.n_read += 1
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            report.skip(f"not a marked note ({type(error).__name__})", number)


def _marked_note(row: Row) -> MarkedNote:
    """Check a row of our JSON lines, which the other formats are read into."""
    note_id, text, marks = row["id"], row["text"], []
    if not isinstance(note_id, str | int) or not isinstance(text, str):
        raise TypeError
    for each in row["mentions"]:
        mark = Mark(each["start"], each["end"], each["kind"], tuple(each.get("senses") or ()))
        if {type(mark.start), type(mark.end)} != {int} or not all(
            isinstance(each, str) for each in mark.senses
        ):
            raise TypeError
        if mark.kind not in KINDS or not 0 <= mark.start < mark.end <= len(text):
            raise ValueError
        if mark.kind == SHORT_FORM and not mark.senses:
            raise ValueError
        marks.append(mark)
    return MarkedNote(str(note_id), text, tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))))


def _read_brat(path: Path) -> Row:
    labels: dict[str, tuple[str, int, int]] = {}
    senses: dict[str, str] = {}
    for line in path.with_suffix(".ann").read_text("utf-8").splitlines():
        key, _, rest = line.partition("\t")
        if key.startswith("T"):
            label, start, end = rest.partition("\t")[0].replace(";", " ").split()[:3]
            labels[key] = label, int(start), int(end)
        elif key.startswith("#"):
            target, _, note = rest.partition("\t")
            senses[target.split()[1]] = note
    mentions = [_mention(*where, senses.get(key, "")) for key, where in labels.items()]
    text = path.read_bytes().decode()  # offsets count the carriage returns, which `read_text` drops
    return {"id": path.stem, "text": text, "mentions": mentions}


def _read_task(task: Row) -> Row:
    regions: dict[str, dict[str, Any]] = defaultdict(lambda: {"senses": ""})
    for result in task["annotations"][0]["result"]:
        if "start" not in (value := result.get("value", {})):
            continue  # a relation, or an answer about the whole text
        region = regions[result["id"]]
        region |= {"start": value["start"], "end": value["end"]}
        if "labels" in value:
            region["label"] = value["labels"][0]
        if "text" in value and result["type"] == "textarea":
            region["senses"] = ";".join(value["text"])
    mentions = [
        _mention(each["label"], each["start"], each["end"], each["senses"]) for each in regions.values()
    ]
    note_id = task["data"].get("note_id", task.get("id"))
    return {"id": note_id, "text": task["data"]["text"], "mentions": mentions}


def _mention(label: str, start: int, end: int, senses: str) -> Row:
    kind = label.lower() if label.lower() in KINDS else SHORT_FORM
    named = [sense.strip() for sense in senses.split(";") if sense.strip()]
    return {"start": start, "end": end, "kind": kind, "senses": named}


class Meanings:
    """Decides whether two wordings mean the same, by their words or by an inventory."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._alternatives: dict[str, set[str]] = defaultdict(set)
        for sense in inventory:
            wordings = {_normalised(form) for form in (sense.long_form, *sense.forms)}
            for wording in wordings:
                self._alternatives[wording] |= wordings

    def same(self, long_form: str, senses: Iterable[str]) -> bool:
        """Whether a long form means one of the senses."""
        given = _normalised(long_form)
        meant = {given} | self._alternatives.get(given, set())
        wanted = {_normalised(sense) for sense in senses}
        return bool(meant & wanted) or any(_is_counted(given, sense) for sense in wanted)


def _normalised(wording: str) -> str:
    words = re.findall(r"[a-z0-9%]+", wording.lower().replace("'s", ""))
    return " ".join(sorted(_stem(word) for word in words if word not in _FUNCTION_WORDS or len(words) == 1))


def _stem(word: str) -> str:
    return str(_NUMBERS.index(word)) if word in _NUMBERS else _SUFFIX.sub("", word)


def _is_counted(given: str, sense: str) -> bool:
    """Whether a wording is a sense plus a number: "times six" for "times"."""
    words, of_sense = Counter(given.split()), Counter(sense.split())
    return of_sense < words and all(word.isdigit() for word in words - of_sense)
