"""Inventories as files, and other ways to give one.

Files are CSV, TSV or JSON. A file may also contain rules for the inventory that it extends: `lmcells.expansion.layers`.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmcells.errors import InputError, InventoryError
from lmcells.expansion.inventory import ALL_SENSES, Sense, SenseInventory, SenseRule, refuse_misspelt
from lmcells.files import atomic_write, explain_unwritable
from lmcells.notes.note import is_missing

COLUMNS = ("short_form", "long_form", "forms", "concept_id", "error_prone")
SEPARATOR = ";"  # of forms, and of conditions, in a CSV file
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SUFFIXES = (*DELIMITERS, ".json")

_RULE_COLUMNS = ("action", "where")
_REMARKS = ("comment", "example", "probability")  # columns for people, like those named n_...
_BETWEEN = re.compile(r"[\s,]*")
_TRUE, _FALSE = ("yes", "true", "1"), ("no", "false", "0", "")

SenseLike = Sense | SenseRule | Mapping[str, Any]
InventoryLike = SenseInventory | Path | str | Iterable[SenseLike]
_Pins = dict[tuple[str, tuple[tuple[str, str], ...]], str]  # short form and conditions -> where it is pinned


def as_rules(given: Iterable[SenseLike]) -> list[SenseRule]:
    """Return senses and rules, given as objects or as mappings with the keys of a JSON file, as checked rules."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InventoryError(
            f"an inventory cannot be a {type(given).__name__}. Allowed: a SenseInventory, a path, or a list of senses."
        )
    rules: list[SenseRule] = []
    pins: _Pins = {}
    for number, entry in enumerate(given, start=1):
        try:
            rule = _rule(entry)
            _pin_once(rule, f"entry {number}", pins)
        except InventoryError as error:
            raise InventoryError(f"entry {number}: {error}") from error
        rules.append(rule)
    return rules


def _pin_once(rule: SenseRule, place: str, pins: _Pins) -> None:
    """Refuse a second pin of a short form under the same conditions."""
    first = pins.setdefault((rule.sense.short_form, rule.where), place) if rule.action == "pin" else place
    if first != place:
        raise InventoryError(f"{rule.sense.short_form!r} is already pinned there ({first}). Keep one.")


# Reading


def load_inventory(given: InventoryLike) -> SenseInventory:
    """Return an inventory from a file or a list of senses; rules are refused, since they extend another inventory."""
    if isinstance(given, SenseInventory):
        return given
    if isinstance(given, str | Path):
        where, rules = f"{given}: ", load_rules(Path(given))
    else:
        where, rules = "", [(f"entry {number}", rule) for number, rule in enumerate(as_rules(given), start=1)]
    if not rules:
        raise InventoryError(f"{where}the inventory is empty. Give at least one sense.")
    for place, rule in rules:
        if rule.action != "add" or rule.where:
            what = f"{rule.action} is a rule" if rule.action != "add" else f"depends on {rule.where[0][0]!r}"
            raise InventoryError(
                f"{where}{place}: {what}, but this inventory must not have rules. Give plain senses."
            )
    return SenseInventory.from_senses(rule.sense for _, rule in rules)


def load_rules(path: Path) -> list[tuple[str, SenseRule]]:
    """Read the rules of a file, each with its line; a plain sense is a rule to add it."""
    rules, problems = read_rules(path)
    if problems:
        others = f" And {len(problems) - 1:,} more: lmcells inventory check {path}"
        more = others if len(problems) > 1 else ""
        raise InventoryError(f"{path}, {problems[0]}{more}")
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
    pins: _Pins = {}
    suffix = path.suffix.lower()
    is_json = suffix not in DELIMITERS and (suffix == ".json" or text.lstrip().startswith(("[", "{")))
    try:
        for place, entry in _json_entries(text) if is_json else _table_entries(text):
            try:
                rule = _rule(entry)
                first = first_place.setdefault((rule.sense.key, rule.where), place)
                if first != place:
                    again = (
                        f"{rule.sense.long_form!r} is already a sense of {rule.sense.short_form!r} ({first})"
                    )
                    raise InventoryError(f"{again}. Put all its forms into one row.")
                _pin_once(rule, place, pins)
            except InventoryError as error:
                problems.append(f"{place}: {error}")
                continue
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
        raise InventoryError(f"the inventory is JSON, but not a list. {expected}.")
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


def _table_entries(text: str) -> Iterator[tuple[str, Any]]:
    delimiter = max(",\t;", key=text.partition("\n")[0].count)  # some programs write semicolons
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        missing = [name for name in COLUMNS[:2] if name not in names]
        if missing:
            raise InventoryError(
                f"the inventory has no column {missing[0]!r}. Found: {', '.join(names) or 'none'}; needed: "
                f"{', '.join(COLUMNS[:2])}; others: {', '.join((*COLUMNS[2:], *_RULE_COLUMNS))}, metadata."
            )
        if twice := next((name for name in filter(None, names) if names.count(name) > 1), None):
            raise InventoryError(f"the inventory has two columns {twice!r}. Keep one.")
        while True:
            line = rows.line_num + 1
            row = next(rows, None)
            if row is None:
                return
            if any(row):
                yield f"line {line}", _from_cells(names, row)
    except csv.Error as error:
        raise InventoryError(f"the inventory is not CSV (line {rows.line_num}: {error}).") from error


def _from_cells(names: list[str], row: list[str]) -> dict[str, Any] | InventoryError:
    """Return a row of a table as an entry of a JSON file."""
    if len(row) > len(names) and any(row[len(names) :]):
        return InventoryError(
            f"found {len(row)} cells for {len(names)} columns. Put a cell with commas in quotes."
        )
    cells: dict[str, Any] = dict(zip(names, row, strict=False))
    forms, where = cells.get("forms"), cells.get("where") or ""
    cells["forms"] = [form for form in forms.split(SEPARATOR) if form.strip()] if forms else None
    pairs = [each.partition("=")[::2] for each in where.split(SEPARATOR) if each.strip()]
    if any("=" in value for _, value in pairs):
        return InventoryError(f"'where' has a condition with two '='. Separate conditions by {SEPARATOR!r}.")
    cells["where"] = {name.strip().lower(): value for name, value in pairs}
    if len(cells["where"]) < len(pairs):
        return InventoryError("'where' has a condition twice. All must hold: give each value its own row.")
    return {name: cell for name, cell in cells.items() if not isinstance(cell, str) or cell.strip()}


def _rule(entry: Any) -> SenseRule:
    """Check one entry of a file or a list."""
    if isinstance(entry, SenseRule):
        return entry
    if isinstance(entry, Sense):
        return SenseRule(entry)
    if isinstance(entry, InventoryError):
        raise entry
    if not isinstance(entry, Mapping):
        raise InventoryError(f"found: {type(entry).__name__}, allowed: a sense with short_form, long_form.")
    entry = rule_fields(entry)
    action = entry["action"]
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
    if isinstance(concept_id, float) and concept_id.is_integer():
        concept_id = int(concept_id)
    if concept_id is not None and not isinstance(concept_id, str | int):
        raise InventoryError("'concept_id' must be a string or a number.")
    is_error_prone = str(error_prone or "").strip().lower()
    if is_error_prone not in _TRUE + _FALSE:
        raise InventoryError("'error_prone' must be true or false.")
    sense = Sense(
        str(short_form).strip(),
        str(long_form).strip(),
        tuple([form.strip() for form in forms or ()]),
        str(concept_id).strip() or None if concept_id is not None else None,
        is_error_prone in _TRUE,
    )
    return SenseRule(sense, action, _conditions(entry.get("where") or {}))


def rule_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rule, by their names in lower case. Other keys are conditions, unless they are remarks."""
    given = {str(name).strip().lower(): value for name, value in entry.items() if not is_missing(value)}
    fields = {name: given.pop(name) for name in (*COLUMNS, *_RULE_COLUMNS) if name in given}
    fields["action"] = str(fields.get("action") or "").strip().lower() or "add"
    where = fields.get("where") or {}
    conditions = {
        name: value
        for name, value in given.items()
        if name not in ("", *_REMARKS) and not name.startswith("n_")
    }
    for name in conditions:
        advice = "Correct it; if it is other metadata, give it in 'where'."
        refuse_misspelt(name, (*COLUMNS, *_RULE_COLUMNS, *_REMARKS), advice)
    if conditions and isinstance(where, Mapping):
        fields["where"] = conditions | dict(where)
    return fields


def _conditions(where: Any) -> tuple[tuple[str, str], ...]:
    """Check what must hold for a rule."""
    if not isinstance(where, Mapping):
        raise InventoryError("'where' must be an object of metadata and their values.")
    for name, value in where.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InventoryError(f"{name!r} is a condition, so its value must be text, such as 'CARDIOLOGY'.")
    conditions = tuple(sorted((name.strip().lower(), value.strip()) for name, value in where.items()))
    if not all(name and value for name, value in conditions):
        raise InventoryError("a condition needs a name and a value, such as section=CARDIOLOGY.")
    return conditions


# Writing


def save_inventory(inventory: SenseInventory, path: Path) -> None:
    """Write the senses of an inventory to a file, atomically: CSV or TSV by its suffix, otherwise JSON."""
    delimiter = DELIMITERS.get(path.suffix.lower())
    text = _to_table(inventory, delimiter) if delimiter else _to_json(inventory)
    with explain_unwritable(f"inventory {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")


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
