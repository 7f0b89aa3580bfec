"""Which columns hold the text, the id and the metadata."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmcells.errors import FormatError, InputError, nearest

MAX_NAMES_SHOWN = 20
_COLUMN_NAME = re.compile(r"(?!\d)[\w.#-]{1,30}( [\w.#-]{1,30}){0,2}")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns the user named; None: the format's own. `metadata` are further ones to keep."""

    text: str | None = None
    id: str | None = None
    category: str | None = None
    metadata: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "category" in self.metadata and self.category not in (None, "category"):
            raise InputError(
                f"Both {self.category!r} (--category-column) and 'category' (--metadata-column) would be "
                "kept as 'category'. Give one of them."
            )


DEFAULT_COLUMNS = Columns()


@dataclass(frozen=True, slots=True)
class Layout:
    """What a format calls its columns, in order of preference and whatever the case."""

    text: tuple[str, ...]
    id: tuple[str, ...]
    category: tuple[str, ...]
    sections: str | None = None  # a list of {"header", "text"} in place of a text
    source: str | None = None  # ids begin with it; None: with the file's stem
    error_flag: str | None = None  # rows where it is 1 were withdrawn


TABLE = Layout(
    text=("text", "note_text", "note"), id=("id", "note_id", "row_id"), category=("category", "note_type")
)
DOCUMENTS = Layout(text=TABLE.text, id=TABLE.id, category=TABLE.category, sections="sections")
MIMIC3 = Layout(text=("text",), id=("row_id",), category=("category",), source="mimic3", error_flag="iserror")
MIMIC4 = Layout(text=("text",), id=("note_id",), category=("note_type",), source="mimic4")


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns of one file that will be read, as the file spells them; None where it has none."""

    text: str | None
    sections: str | None
    id: str | None
    error_flag: str | None
    metadata: tuple[tuple[str, str], ...]  # (key in Note.metadata, column)
    missing: tuple[tuple[str, str], ...]  # (column the user named, flag) that the file does not have


def choose(columns: Columns, *, layout: Layout, found: Sequence[str]) -> Choice:
    """Match what the user named, else what the layout expects, with the columns found."""
    spelled = {name.lower(): name for name in reversed(found)}  # of two that differ in case, the first
    missing: list[tuple[str, str]] = []

    def pick(named: str | None, expected: Sequence[str], flag: str) -> str | None:
        if named is None:
            return next((spelled[name] for name in expected if name in spelled), None)
        if named in found:
            return named
        missing.append((named, flag))
        return None

    text = pick(columns.text, layout.text, "--text-column")
    sections = pick(None, [layout.sections] if layout.sections and columns.text is None else [], "")
    note_id = pick(columns.id, layout.id, "--id-column")
    category = pick(columns.category, layout.category, "--category-column")
    kept = [("category", category)]
    kept += [(name, pick(name, (), "--metadata-column")) for name in dict.fromkeys(columns.metadata)]
    return Choice(
        text=text,
        sections=sections,
        id=note_id,
        error_flag=pick(None, [layout.error_flag] if layout.error_flag else [], ""),
        metadata=tuple((key, column) for key, column in kept if column is not None),
        missing=tuple(missing),
    )


def require(choice: Choice, *, layout: Layout, found: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks a column the user named, its text, or the id its format promises."""
    if choice.missing:
        name, flag = choice.missing[0]
        raise FormatError(
            f"{path} has no column {name!r} (set by {flag}); {_shown(found)}."
            f"{nearest(name, _presentable(found))}"
        )
    if choice.text is None and choice.sections is None:
        expected = " or ".join(repr(name) for name in (*layout.text[:1], layout.sections) if name)
        raise FormatError(
            f"{path} has no column {expected}; {_shown(found)}. "
            "Name the column of the text with --text-column."
        )
    if choice.id is None and layout.source is not None:
        raise FormatError(
            f"{path} has no column {layout.id[0]!r}, which {layout.source} promises; {_shown(found)}. "
            "Name the column of the ids with --id-column, or read it as --format csv."
        )


def _presentable(found: Sequence[str]) -> list[str]:
    """Names fit for a message; none when the first row is no header but a note, which must not be shown."""
    named = [name for name in found if name]
    return named[:MAX_NAMES_SHOWN] if all(map(_COLUMN_NAME.fullmatch, named)) else []


def _shown(found: Sequence[str]) -> str:
    names = _presentable(found)
    if not names:
        return f"its first row ({len(found)} fields) does not look like a row of column names"
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    return f"columns found: {', '.join(names)}{more}"
