"""The long forms that a short form may stand for: a sense inventory, in memory and as a file."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lmcells.errors import InputError, InventoryError, UnknownShortForm, nearest
from lmcells.files import atomic_write

COLUMNS = ("short_form", "long_form", "forms", "concept_id")
REQUIRED = COLUMNS[:3]
SEPARATOR = ";"  # of forms in a CSV file
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Sense:
    """One meaning of a short form.

    Attributes:
        short_form: as it is written, "PT".
        long_form: the canonical name of the sense, "physical therapy".
        forms: the ways it is written out; the long form, if none is given.
        concept_id: the concept in a terminology, if known.
    """

    short_form: str
    long_form: str
    forms: tuple[str, ...] = ()
    concept_id: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("short_form", self.short_form), ("long_form", self.long_form)):
            if not value.strip():
                raise InventoryError(f"{name} is empty. Every sense needs one.")
        forms = tuple(dict.fromkeys(self.forms or (self.long_form,)))
        if not all(form.strip() for form in forms):
            raise InventoryError(f"a form of {self.short_form!r} is empty. Remove it.")
        object.__setattr__(self, "forms", forms)


@dataclass(frozen=True, slots=True)
class SenseInventory:
    """Short forms and their senses, in the order in which they were given. An inventory never changes.

    Examples:
        ```python
        inventory = load_inventory(Path("inventory.json"))
        inventory.senses("PT")                       # the candidates, a tuple of Sense
        mine = inventory.add(Sense("PT", "posterior tibial"))     # a new inventory, as all of these are
        mine = mine.remove("PT", "prothrombin time")
        mine = mine.override("MS", [Sense("MS", "multiple sclerosis"), Sense("MS", "morphine sulfate")])
        save_inventory(mine, Path("mine.csv"))
        ```
    """

    by_short_form: Mapping[str, tuple[Sense, ...]] = field(default_factory=dict)

    @classmethod
    def from_senses(cls, senses: Iterable[Sense]) -> Self:
        """Group senses by short form; refuses a sense that is there twice."""
        grouped: dict[str, list[Sense]] = {}
        first_entry: dict[tuple[str, str], int] = {}
        for entry, sense in enumerate(senses, start=1):
            first = first_entry.setdefault(_key(sense.short_form, sense.long_form), entry)
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
        """The number of senses, of all short forms together."""
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
        """Return an inventory with further senses; refuses one that is there already."""
        return self.from_senses([*self, *senses])

    def remove(self, short_form: str, long_form: str | None = None) -> Self:
        """Return an inventory without a short form, or without one of its senses."""
        senses = self.senses(short_form)
        if long_form is None:
            return self.override(short_form, ())
        kept = [sense for sense in senses if _key(short_form, sense.long_form) != _key(short_form, long_form)]
        if len(kept) == len(senses):
            names = [sense.long_form for sense in senses]
            raise InventoryError(
                f"{long_form!r} is not a sense of {short_form!r} ({len(names)} senses).{nearest(long_form, names)}"
            )
        return self.override(short_form, kept)

    def override(self, short_form: str, senses: Iterable[Sense]) -> Self:
        """Return an inventory in which a short form has exactly these senses; none removes it."""
        given = tuple(senses)
        for sense in given:
            if sense.short_form != short_form:
                raise InventoryError(f"a sense of {sense.short_form!r} cannot be a sense of {short_form!r}.")
        by_short_form = {**self.by_short_form, short_form: given}
        return self.from_senses(sense for group in by_short_form.values() for sense in group)

    def with_senses(
        self,
        *,
        add: "Iterable[SenseLike]" = (),
        remove: Iterable[str | tuple[str, str]] = (),
        override: "Iterable[SenseLike]" = (),
    ) -> Self:
        """Return an inventory with several changes, in this order: `remove`, `override`, `add`.

        Args:
            add: senses that are not there yet: `Sense`, or mappings with its fields.
            remove: short forms, and pairs of a short form and one of its long forms.
            override: senses of short forms that are to have exactly these.
        """
        inventory = self
        for removed in remove:
            inventory = inventory.remove(removed) if isinstance(removed, str) else inventory.remove(*removed)
        overriding: dict[str, list[Sense]] = {}
        for sense in _as_senses(override):
            inventory.senses(sense.short_form)  # says which is near when there is none
            overriding.setdefault(sense.short_form, []).append(sense)
        for short_form, senses in overriding.items():
            inventory = inventory.override(short_form, senses)
        return inventory.add(*_as_senses(add))


SenseLike = Sense | Mapping[str, Any]
InventoryLike = SenseInventory | Path | str | Iterable[SenseLike]


def as_inventory(given: InventoryLike) -> SenseInventory:
    """Return the inventory that is given as such, as a file, or as a list of senses."""
    if isinstance(given, SenseInventory):
        return given
    if isinstance(given, str | Path):
        return load_inventory(Path(given))
    inventory = SenseInventory.from_senses(_as_senses(given))
    if not len(inventory):
        raise InventoryError("the inventory is empty. Give at least one sense.")
    return inventory


def _as_senses(given: Iterable[SenseLike]) -> list[Sense]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InventoryError(
            f"an inventory cannot be a {type(given).__name__}. Allowed: a SenseInventory, a path, or a list of senses."
        )
    senses = []
    for number, entry in enumerate(given, start=1):
        if isinstance(entry, Mapping):
            senses.append(_sense(number, {"forms": [entry.get("long_form")], **entry}))
        elif isinstance(entry, Sense):
            senses.append(entry)
        else:
            raise InventoryError(f"entry {number} is a {type(entry).__name__}, not a sense.")
    return senses


def _key(short_form: str, long_form: str) -> tuple[str, str]:
    return short_form, " ".join(long_form.casefold().split())


def load_inventory(path: Path) -> SenseInventory:
    """Read an inventory from a file: CSV if it is named .csv, otherwise JSON."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"inventory {path} cannot be read: {error.strerror or error}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise InventoryError(f"{path}: the inventory is not UTF-8 text. Save it as UTF-8.") from error
    try:
        entries = _csv_entries(text) if path.suffix.lower() == ".csv" else _json_entries(text)
        inventory = SenseInventory.from_senses(_sense(n, entry) for n, entry in enumerate(entries, start=1))
    except InventoryError as error:
        raise InventoryError(f"{path}: {error}") from error
    if not len(inventory):
        raise InventoryError(f"{path}: the inventory is empty. Give at least one sense.")
    return inventory


def _json_entries(text: str) -> list[Any]:
    expected = 'Expected a list of {"short_form", "long_form", "forms": [...]}'
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg}, line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InventoryError(
            f"the inventory is not JSON{where}. {expected}, or a file named .csv."
        ) from error
    if not isinstance(entries, list):
        raise InventoryError(f"the inventory is a JSON {type(entries).__name__}. {expected}.")
    return entries


def _csv_entries(text: str) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    missing = [column for column in REQUIRED if column not in (rows.fieldnames or ())]
    if missing:
        raise InventoryError(
            f"the inventory has no column {missing[0]!r}. Found: {', '.join(rows.fieldnames or ()) or 'none'}; "
            f"needed: {', '.join(REQUIRED)}, with forms separated by {SEPARATOR!r}."
        )
    try:
        return [row | {"forms": (row["forms"] or "").split(SEPARATOR)} for row in rows]
    except csv.Error as error:
        raise InventoryError(f"the inventory is not CSV (line {rows.line_num}: {error}).") from error


def _sense(number: int, entry: Any) -> Sense:
    """Check one entry of a file or a list."""
    if not isinstance(entry, dict):
        raise InventoryError(f"entry {number} is a JSON {type(entry).__name__}, not an object.")
    missing = [key for key in REQUIRED if entry.get(key) is None]
    if missing:
        raise InventoryError(f"entry {number} has no {missing[0]!r}. Needed: {', '.join(REQUIRED)}.")
    short_form, long_form, forms = (entry[key] for key in REQUIRED)
    if not isinstance(short_form, str) or not isinstance(long_form, str):
        raise InventoryError(f"entry {number}: 'short_form' and 'long_form' must be strings.")
    if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
        raise InventoryError(f"entry {number}: 'forms' must be a list of strings.")
    written = tuple(form.strip() for form in forms)
    if not any(written):
        raise InventoryError(f"entry {number}: 'forms' is empty. Write at least the long form itself.")
    concept_id = entry.get("concept_id")
    if not isinstance(concept_id, str | int | None):
        raise InventoryError(f"entry {number}: 'concept_id' must be a string or a number.")
    concept = None if concept_id in (None, "") else str(concept_id)
    try:
        return Sense(short_form.strip(), long_form.strip(), written, concept)
    except InventoryError as error:
        raise InventoryError(f"entry {number}: {error}") from error


def save_inventory(inventory: SenseInventory, path: Path) -> None:
    """Write an inventory to a file, atomically: CSV if it is named .csv, otherwise JSON."""
    text = _to_csv(inventory) if path.suffix.lower() == ".csv" else _to_json(inventory)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"inventory {path} cannot be written: {error.strerror or error}.") from error


def _to_json(inventory: SenseInventory) -> str:
    entries = [
        {name: value for name in COLUMNS if (value := getattr(sense, name)) is not None}
        for sense in inventory
    ]
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


def _to_csv(inventory: SenseInventory) -> str:
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    for sense in inventory:
        if any(SEPARATOR in form for form in sense.forms):
            raise InventoryError(
                f"a form of {sense.short_form!r}, {sense.long_form!r} holds {SEPARATOR!r}, which separates forms in "
                "CSV. Save the inventory as JSON."
            )
        writer.writerow(
            (sense.short_form, sense.long_form, SEPARATOR.join(sense.forms), sense.concept_id or "")
        )
    return table.getvalue()


def form_key(form: str) -> tuple[str, ...]:
    """Return the words of a form in lower case and singular, without hyphens: equal for all ways to write it."""
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
        """Return the sense of a short form that some words spell out, None where the inventory has none."""
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
