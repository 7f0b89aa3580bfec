"""Sections from headers, and the table of header aliases.

`section_aliases.json` has three blocks. *Sections* map a canonical name to other ways of writing it. *Parts* are
sub-headings, such as HEENT: inside one of the sections they are listed for, they do not open a new section.
*Fields*, such as "Date", look like headers but never are. Users may add their own file.
"""

import enum
import json
import re
import string
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from lmcells.errors import FormatError
from lmcells.notes.note import Section

# A header: its start, the start of its body, its text as written (without numbering, colon and surrounding space; None
# for text under no header) and its canonical name. A plain tuple, since a large corpus has very many.
Header = tuple[int, int, str | None, str]
NO_HEADER: Header = (0, 0, None, "")
LONGEST_HEADER = 80

_EXPECTED = 'Expected {"CANONICAL NAME": ["alias", ...], ...}'
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " ") | dict.fromkeys("-'’", ""))
_ASIDE = re.compile(r"\([^()]*\)")


def with_opening(headers: list[Header], *, text_length: int) -> list[Header]:
    """Prepend "no section", unless the text begins with a header or is empty."""
    first = headers[0][0] if headers else text_length
    return [NO_HEADER, *headers] if first > 0 else headers


def cover(text_length: int, headers: list[Header]) -> tuple[Section, ...]:
    """Turn ordered, non-overlapping headers into adjacent sections that cover the whole text.

    A header with no body still ends the previous section. An empty note has no sections.
    """
    headers = with_opening(headers, text_length=text_length)
    ends = [start for start, _, _, _ in headers[1:]] + [text_length]
    return tuple(
        Section(raw, name, start, body_start, end)
        for (start, body_start, raw, name), end in zip(headers, ends, strict=False)
    )


@lru_cache(maxsize=4096)
def upper_name(header: str) -> str:
    """Return a header's own text as its name: upper case, white space collapsed."""
    return " ".join(header.upper().split())


class Kind(enum.Enum):
    """What a header is, whatever its position in the note."""

    OWN = "named by the user"
    SECTION = "a section"
    PART = "a sub-heading"
    FIELD = "never a header"


class Alias(NamedTuple):
    """What the table says about one way to write a header."""

    name: str
    kind: Kind
    within: frozenset[str] = frozenset()  # sections whose sub-heading it is


AliasTable = dict[str, Alias]  # by `header_key`


def header_key(header: str) -> str:
    """Normalise a header: no case, punctuation or hyphens, and "&" read as "and"."""
    return " ".join(header.upper().replace("&", " AND ").translate(_PUNCTUATION).split())


def find_alias(table: AliasTable, header: str) -> Alias | None:
    """Look up a header as written, then without its asides: "PMH (per daughter)" is PMH."""
    alias = table.get(header_key(header))
    if alias is None and "(" in header:
        alias = table.get(header_key(_ASIDE.sub(" ", header)))
    return alias


def canonical_name(table: AliasTable, header: str) -> str:
    """Return the name of a header by the table, or else its own text as its name."""
    alias = find_alias(table, header)
    return alias.name if alias and alias.name else upper_name(header)


def load_aliases(extra: Path | None = None) -> AliasTable:
    """Return the shipped table, updated by the user's file, `{"CANONICAL NAME": ["alias", ...]}`."""
    return _shipped_aliases() | (_user_aliases(extra) if extra else {})


@cache
def _shipped_aliases() -> AliasTable:
    blocks = json.loads(resources.files(__package__).joinpath("section_aliases.json").read_text("utf-8"))
    table = {header_key(field): Alias("", Kind.FIELD) for field in blocks["fields"]}
    for group in blocks["parts"]:
        for name, aliases in group["headers"].items():
            for key in map(header_key, [name, *aliases]):
                within = table[key].within if key in table else frozenset()
                table[key] = Alias(name, Kind.PART, within | frozenset(group["within"]))
    for name, aliases in blocks["sections"].items():
        table.update((header_key(alias), Alias(name, Kind.SECTION)) for alias in [name, *aliases])
    return table


def _user_aliases(path: Path) -> AliasTable:
    table: AliasTable = {}
    names = set()
    for name, aliases in _read_rules(path):
        canonical = upper_name(name)
        if canonical in names:
            raise FormatError(f"{path}: {name!r} appears twice. Put all its aliases into one list.")
        names.add(canonical)
        if type(aliases) is not list:
            raise FormatError(
                f"{path}: the aliases of {name!r} are a JSON {_json_type(aliases)}. {_EXPECTED}."
            )
        for alias in [name, *aliases]:
            if not isinstance(alias, str):
                raise FormatError(
                    f"{path}: {name!r} has an alias that is a JSON {_json_type(alias)}. {_EXPECTED}."
                )
            key = header_key(alias)
            if not key or len(alias.strip()) > LONGEST_HEADER:
                raise FormatError(
                    f"{path}: an alias of {canonical!r} cannot be a header. Allowed: up to {LONGEST_HEADER} "
                    f"characters, with a letter or a digit; found {len(alias.strip())}. Change or remove it."
                )
            if table.setdefault(key, Alias(canonical, Kind.OWN)).name != canonical:
                raise FormatError(
                    f"{path}: {alias!r} is given to two names, {table[key].name!r} and {canonical!r}. "
                    "A header can have only one. Remove it from one of them."
                )
    return table


def _read_rules(path: Path) -> "_Pairs":
    try:
        rules = json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_Pairs)
    except OSError as error:
        raise FormatError(
            f"{path}: section rules cannot be read ({error.strerror}). Check the path."
        ) from error
    except ValueError as error:
        raise FormatError(f"{path}: section rules are not JSON in UTF-8 ({error}). {_EXPECTED}.") from error
    if not isinstance(rules, _Pairs):
        raise FormatError(f"{path}: section rules are a JSON {_json_type(rules)}. {_EXPECTED}.")
    return rules


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as pairs, so that a repeated key is not lost."""


def _json_type(value: object) -> str:
    names = {_Pairs: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
