"""Sense inventories, in memory and as files: the long forms that each short form may stand for.

Files are CSV, TSV or JSON. A file may also contain rules for the inventory that it extends: `lmcells.expansion.layers`.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from lmcells.errors import InputError, InventoryError, UnknownShortForm, nearest
from lmcells.files import atomic_write

COLUMNS = ("short_form", "long_form", "forms", "concept_id", "error_prone")
SEPARATOR = ";"  # of forms, and of conditions, in a CSV file
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SUFFIXES = (*DELIMITERS, ".json")
ALL_SENSES = "*"
"""The long form of a rule that forbids all senses of a short form."""

Action = Literal["add", "forbid", "pin"]
ACTIONS: tuple[Action, ...] = get_args(Action)

_RULE_COLUMNS = ("action", "where")
_REMARKS = ("comment", "example", "probability")  # columns for people, like those named n_...
_WORD = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[\s,]*")
_TRUE, _FALSE = ("yes", "true", "1"), ("no", "false", "0", "")


@dataclass(frozen=True, slots=True)
class Sense:
    """One meaning of a short form.

    Attributes:
        short_form: as it is written, "PT".
        long_form: the canonical name of the sense, "physical therapy".
        forms: the ways to write it; by default the long form.
        concept_id: its concept in a terminology, if known.
        error_prone: public patient-safety lists advise against this short form for this sense.
    """

    short_form: str
    long_form: str
    forms: tuple[str, ...] = ()
    concept_id: str | None = None
    error_prone: bool = False

    def __post_init__(self) -> None:
        for name, value in (("short_form", self.short_form), ("long_form", self.long_form)):
            if not value.strip():
                raise InventoryError(f"{name} is empty. Every sense needs one.")
        forms = tuple(dict.fromkeys(self.forms)) if self.forms else (self.long_form,)
        if self.forms and not all(map(str.strip, forms)):
            raise InventoryError(f"a form of {self.short_form!r} is empty. Remove it.")
        object.__setattr__(self, "forms", forms)

    @property
    def key(self) -> tuple[str, str]:
        """A key that is unique within an inventory."""
        return self.short_form, " ".join(self.long_form.casefold().split())


@dataclass(frozen=True, slots=True)
class SenseRule:
    """A change to an inventory: a sense is added, forbidden, or pinned, which makes it the answer.

    It applies where the metadata match all of `where`, such as (("section", "CARDIOLOGY"),); an empty one always does.
    """

    sense: Sense
    action: Action = "add"
    where: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InventoryError(f"action: found {self.action!r}, allowed: {', '.join(ACTIONS)}.")
        if self.sense.long_form == ALL_SENSES and self.action != "forbid":
            raise InventoryError(
                f"long_form: {ALL_SENSES!r} is only for forbid; to {self.action} a sense, name it."
            )


@dataclass(frozen=True, slots=True)
class SenseInventory:
    """Short forms and their senses, in the given order. Inventories are immutable.

    A short form without senses is never expanded. `rules` has the rules of the short forms whose senses depend on the
    section or on metadata; `by_short_form` has all senses that they may have.

    Examples:
        ```python
        inventory = load_inventory(Path("inventory.json"))
        inventory.senses("PT")                       # the candidates, a tuple of Sense
        mine = inventory.add(Sense("PT", "posterior tibial"))     # a new inventory
        mine = extend(mine, "site.csv")              # from lmcells.expansion.layers
        save_inventory(mine, Path("mine.csv"))
        ```
    """

    by_short_form: Mapping[str, tuple[Sense, ...]] = field(default_factory=dict)
    rules: Mapping[str, tuple[SenseRule, ...]] = field(default_factory=dict)
    has_priors: bool = False  # the shipped inventory, or one that extends it

    @classmethod
    def from_senses(cls, senses: Iterable[Sense]) -> Self:
        """Group senses by short form; refuses duplicates."""
        grouped: dict[str, list[Sense]] = {}
        first_entry: dict[tuple[str, str], int] = {}
        for entry, sense in enumerate(senses, start=1):
            first = first_entry.setdefault(sense.key, entry)
            if first != entry:
                raise InventoryError(
                    f"entry {entry}: {sense.long_form!r} is a sense of {sense.short_form!r} already (entry {first}). "
                    "Put all its forms into one entry."
                )
            grouped.setdefault(sense.short_form, []).append(sense)
        return cls({short_form: tuple(group) for short_form, group in grouped.items()})

    @property
    def short_forms(self) -> tuple[str, ...]:
        """The short forms."""
        return tuple(self.by_short_form)

    @property
    def n_senses(self) -> int:
        """The number of senses of all short forms."""
        return sum(map(len, self.by_short_form.values()))

    def __len__(self) -> int:
        return len(self.by_short_form)

    def __contains__(self, short_form: object) -> bool:
        return short_form in self.by_short_form

    def __iter__(self) -> Iterator[Sense]:
        for senses in self.by_short_form.values():
            yield from senses

    def senses(self, short_form: str) -> tuple[Sense, ...]:
        """Return the candidates of a short form."""
        if short_form not in self.by_short_form:
            near = nearest(short_form, self.by_short_form) or nearest(short_form.upper(), self.by_short_form)
            raise UnknownShortForm(f"{short_form!r} is not in the inventory ({len(self)} short forms).{near}")
        return self.by_short_form[short_form]

    def add(self, *senses: Sense) -> Self:
        """Return an inventory with further senses; refuses duplicates."""
        return self.from_senses([*self, *senses])


SenseLike = Sense | SenseRule | Mapping[str, Any]
InventoryLike = SenseInventory | Path | str | Iterable[SenseLike]


def as_inventory(given: InventoryLike) -> SenseInventory:
    """Return an inventory, from itself, a file, or a list of senses."""
    if isinstance(given, SenseInventory):
        return given
    if isinstance(given, str | Path):
        return load_inventory(Path(given))
    rules = as_rules(given)
    for number, rule in enumerate(rules, start=1):
        if rule.action != "add" or rule.where:
            raise InventoryError(_not_plain(f"entry {number}", rule))
    inventory = SenseInventory.from_senses(rule.sense for rule in rules)
    if not len(inventory):
        raise InventoryError("the inventory is empty. Give at least one sense.")
    return inventory


def as_rules(given: Iterable[SenseLike]) -> list[SenseRule]:
    """Return senses and rules, given as objects or as mappings with the keys of a JSON file, as checked rules."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InventoryError(
            f"an inventory cannot be a {type(given).__name__}. Allowed: a SenseInventory, a path, or a list of senses."
        )
    rules = []
    for number, entry in enumerate(given, start=1):
        try:
            rules.append(_rule(entry))
        except InventoryError as error:
            raise InventoryError(f"entry {number}: {error}") from error
    return rules


# Reading


def load_inventory(path: Path) -> SenseInventory:
    """Read an inventory without rules; one with rules needs another to extend, and is refused."""
    grouped: dict[str, list[Sense]] = {}
    for place, rule in load_rules(path):  # refuses duplicates
        if rule.action != "add" or rule.where:
            raise InventoryError(f"{path}: {_not_plain(place, rule)}")
        grouped.setdefault(rule.sense.short_form, []).append(rule.sense)
    return SenseInventory({short_form: tuple(senses) for short_form, senses in grouped.items()})


def load_rules(path: Path) -> list[tuple[str, SenseRule]]:
    """Read the rules of a file, each with its line; a plain sense is a rule to add it."""
    rules, problems = read_rules(path)
    if problems:
        others = f" And {len(problems) - 1:,} more: lmcells inventory check {path}"
        more = others if len(problems) > 1 else ""
        raise InventoryError(f"{path}, {problems[0]}{more}")
    if not rules:
        raise InventoryError(f"{path}: the inventory is empty. Give at least one sense.")
    return rules


def read_rules(path: Path) -> tuple[list[tuple[str, SenseRule]], list[str]]:
    """Read a CSV, TSV or JSON file, by its suffix or else its content; -> the rules with their lines, and problems."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"inventory {path} cannot be read: {error.strerror or error}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise InventoryError(f"{path}: the inventory is not UTF-8 text. Save it as UTF-8.") from error
    rules: list[tuple[str, SenseRule]] = []
    problems: list[str] = []
    first_place: dict[Any, str] = {}
    delimiter = DELIMITERS.get(path.suffix.lower())
    if path.suffix.lower() not in SUFFIXES and not text.lstrip().startswith(("[", "{")):
        delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    try:
        for place, entry in _table_entries(text, delimiter) if delimiter else _json_entries(text):
            try:
                rule = _rule(entry)
            except InventoryError as error:
                problems.append(f"{place}: {error}")
                continue
            first = first_place.setdefault((rule.sense.key, rule.where), place)
            if first != place:
                again = f"{rule.sense.long_form!r} is a sense of {rule.sense.short_form!r} already ({first})"
                problems.append(f"{place}: {again}. Put all its forms into one row.")
            else:
                rules.append((place, rule))
    except InventoryError as error:
        raise InventoryError(f"{path}: {error}") from error
    return rules, problems


def _json_entries(text: str) -> Iterator[tuple[str, Any]]:
    expected = 'Expected a list of {"short_form", "long_form", "forms": [...]}'
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg}, line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InventoryError(
            f"the inventory is not JSON{where}. {expected}, or a file named .csv or .tsv."
        ) from error
    if not isinstance(entries, list):
        raise InventoryError(f"the inventory is a JSON {type(entries).__name__}. {expected}.")
    # Entries are decoded again one by one, to find their lines.
    decode = json.JSONDecoder().raw_decode
    end = text.index("[") + 1
    line = text.count("\n", 0, end)
    for number, entry in enumerate(entries, start=1):
        start = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
        line += text.count("\n", end, start)
        yield f"entry {number} (line {line + 1})", entry
        _, end = decode(text, start)
        line += text.count("\n", start, end)


def _table_entries(text: str, delimiter: str) -> Iterator[tuple[str, Any]]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        missing = [name for name in COLUMNS[:2] if name not in names]
        if missing:
            raise InventoryError(
                f"the inventory has no column {missing[0]!r}. Found: {', '.join(names) or 'none'}; needed: "
                f"{', '.join(COLUMNS[:2])}; others: {', '.join((*COLUMNS[2:], *_RULE_COLUMNS))}, metadata."
            )
        known = {*COLUMNS, *_RULE_COLUMNS, *_REMARKS, ""}
        conditions = [name for name in names if name not in known and not name.startswith("n_")]
        while True:
            line = rows.line_num + 1
            row = next(rows, None)
            if row is None:
                return
            if any(row):
                yield f"line {line}", _from_cells(names, row, conditions)
    except csv.Error as error:
        raise InventoryError(f"the inventory is not CSV (line {rows.line_num}: {error}).") from error


def _from_cells(names: list[str], row: list[str], conditions: list[str]) -> dict[str, Any] | InventoryError:
    """Return a row of a table as an entry of a JSON file."""
    if len(row) > len(names) and any(row[len(names) :]):
        return InventoryError(
            f"found {len(row)} cells for {len(names)} columns. Put a cell with commas in quotes."
        )
    cells: dict[str, Any] = dict(zip(names, row, strict=False))
    forms, where = cells.get("forms"), cells.get("where")
    cells["forms"] = [form for form in forms.split(SEPARATOR) if form.strip()] if forms else None
    if conditions or where:
        pairs = [each.partition("=") for each in (where or "").split(SEPARATOR) if each.strip()]
        cells["where"] = {name: cells[name] for name in conditions if cells.get(name, "").strip()}
        cells["where"] |= {name: value for name, _, value in pairs}
    return cells


def _rule(entry: Any) -> SenseRule:
    """Check one entry of a file or a list."""
    if isinstance(entry, SenseRule):
        return entry
    if isinstance(entry, Sense):
        return SenseRule(entry)
    if isinstance(entry, InventoryError):
        raise entry
    if not isinstance(entry, Mapping):
        raise InventoryError(f"is a {type(entry).__name__}, not a sense.")
    action: Any = str(entry.get("action") or "add").strip().lower() or "add"
    short_form, long_form, forms, concept_id, error_prone = (entry.get(name) for name in COLUMNS)
    if action == "forbid" and not long_form:
        long_form = ALL_SENSES
    for name, value in (("short_form", short_form), ("long_form", long_form)):
        if value is None or value == "":
            raise InventoryError(f"has no {name!r}. Every sense needs a short_form and a long_form.")
        if not isinstance(value, str):
            raise InventoryError(f"{name!r} must be a string.")
    if forms is not None and not (
        isinstance(forms, list | tuple) and all(isinstance(each, str) for each in forms)
    ):
        raise InventoryError("'forms' must be a list of strings.")
    if concept_id is not None and not isinstance(concept_id, str | int):
        raise InventoryError("'concept_id' must be a string or a number.")
    if error_prone and str(error_prone).strip().lower() not in _TRUE + _FALSE:
        raise InventoryError("'error_prone' must be true or false.")
    sense = Sense(
        str(short_form).strip(),
        str(long_form).strip(),
        tuple([form.strip() for form in forms or ()]),
        str(concept_id).strip() or None if concept_id is not None else None,
        bool(error_prone) and str(error_prone).strip().lower() in _TRUE,
    )
    return SenseRule(sense, action, _conditions(entry.get("where")))


def _conditions(where: Any) -> tuple[tuple[str, str], ...]:
    if not where:
        return ()
    if not isinstance(where, Mapping) or not all(
        isinstance(each, str) for pair in where.items() for each in pair
    ):
        raise InventoryError("'where' must be an object of metadata and their values.")
    conditions = tuple(sorted((name.strip().lower(), value.strip()) for name, value in where.items()))
    if not all(name and value for name, value in conditions):
        raise InventoryError("a condition needs a name and a value, such as section=CARDIOLOGY.")
    return conditions


def _not_plain(place: str, rule: SenseRule) -> str:
    what = f"{rule.action} is a rule" if rule.action != "add" else f"depends on {rule.where[0][0]!r}"
    return f"{place}: {what}, but the inventory is used alone here. Give plain senses."


# Writing


def save_inventory(inventory: SenseInventory, path: Path) -> None:
    """Write the senses of an inventory to a file, atomically: CSV or TSV by its suffix, otherwise JSON."""
    delimiter = DELIMITERS.get(path.suffix.lower())
    text = _to_table(inventory, delimiter) if delimiter else _to_json(inventory)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"inventory {path} cannot be written: {error.strerror or error}.") from error


def _to_json(inventory: SenseInventory) -> str:
    entries = [
        {name: value for name in COLUMNS if (value := getattr(sense, name)) not in (None, False)}
        for sense in inventory
    ]
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


def _to_table(inventory: SenseInventory, delimiter: str) -> str:
    table = io.StringIO(newline="")
    writer = csv.writer(table, delimiter=delimiter)
    columns = COLUMNS if any(sense.error_prone for sense in inventory) else COLUMNS[:-1]
    writer.writerow(columns)
    for sense in inventory:
        if any(SEPARATOR in form for form in sense.forms):
            raise InventoryError(
                f"a form of {sense.short_form!r}, {sense.long_form!r} contains {SEPARATOR!r}, which separates forms in "
                "CSV. Save the inventory as JSON."
            )
        cells = (
            sense.short_form,
            sense.long_form,
            SEPARATOR.join(sense.forms),
            sense.concept_id or "",
            "yes" if sense.error_prone else "",
        )
        writer.writerow(cells[: len(columns)])
    return table.getvalue()


def form_key(form: str) -> tuple[str, ...]:
    """Normalise a form to its words in lower case and singular, without hyphens."""
    return tuple(_singular(word) for word in _WORD.findall(form.lower()))


def _singular(word: str) -> str:
    if len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") else word


class SenseLookup:
    """Finds senses by any of their forms.

    lookup = SenseLookup(inventory)
    lookup("PT", "Physical Therapies")   # Sense("PT", "physical therapy", ...)
    """

    def __init__(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._by_form: dict[str, dict[tuple[str, ...], Sense]] = {}

    def __call__(self, short_form: str, words: str) -> Sense | None:
        """Return the sense of a short form that some words spell out, or None."""
        if short_form not in self._inventory:
            short_form = short_form.upper()
            if short_form not in self._inventory:
                return None
        if short_form not in self._by_form:
            self._by_form[short_form] = {
                form_key(form): sense
                for sense in reversed(self._inventory.senses(short_form))
                for form in (*sense.forms, sense.long_form)
            }
        return self._by_form[short_form].get(form_key(words))
