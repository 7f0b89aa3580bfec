"""Sense inventories: the long forms that each short form may stand for; `inventory_files` reads and writes them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, Self, get_args

from lmcells.errors import InventoryError, UnknownShortForm, nearest

ALL_SENSES = "*"
"""The long form of a rule that forbids all senses of a short form."""

Action = Literal["add", "forbid", "pin"]
ACTIONS: tuple[Action, ...] = get_args(Action)

CONDITIONS = ("section", "category")
"""The conditions of a rule that every reader of notes fills in; a user's own metadata have other names."""

_WORD = re.compile(r"[^\W_]+")


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
        for name, _ in self.where:
            refuse_misspelt(name, CONDITIONS, "Correct it, or rename the metadata.")


def refuse_misspelt(name: str, known: Iterable[str], advice: str) -> None:
    """Refuse a condition whose name is one slip from a known one: it would never hold, and nobody would notice."""
    for each in known:
        if name != each and _is_one_slip(name, each):
            raise InventoryError(f"{name!r} looks like a misspelt {each!r}. {advice}")


def _is_one_slip(word: str, other: str) -> bool:
    """Whether one letter more, one less, one other or two swapped turn a word into the other."""
    n_same = next((at for at, (a, b) in enumerate(zip_longest(word, other)) if a != b), len(word))
    rest, others = word[n_same:], other[n_same:]
    swapped = rest[:2][::-1] + rest[2:]
    return others in (rest[1:], swapped) or others[1:] in (rest, rest[1:])


@dataclass(frozen=True, slots=True)
class SenseInventory:
    """Short forms and their senses, in the given order. Inventories are immutable.

    A short form without senses is never expanded. `rules` has the rules of the short forms whose senses depend on the
    section or on metadata, and is empty for those that have merely lost a sense; `by_short_form` has all senses that
    they may have.

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
                    f"entry {entry}: {sense.long_form!r} is already a sense of {sense.short_form!r} (entry {first}). "
                    "Put all its forms into one entry."
                )
            grouped.setdefault(sense.short_form, []).append(sense)
        return cls({short_form: tuple(group) for short_form, group in grouped.items()})

    @property
    def short_forms(self) -> tuple[str, ...]:
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
            raise UnknownShortForm(
                f"{short_form!r} is not in the inventory ({len(self):,} short forms)."
                f"{near or ' Check the spelling, or add it to the inventory.'}"
            )
        return self.by_short_form[short_form]

    def add(self, *senses: Sense) -> Self:
        """Return an inventory with further senses; refuses duplicates."""
        return self.from_senses([*self, *senses])


def form_key(form: str) -> tuple[str, ...]:
    """Normalise a form to its words in lower case and singular, without hyphens."""
    return tuple(_singular(word) for word in _WORD.findall(form.lower()))


def plain_short_form(short_form: str) -> str:
    """Normalise a short form: "p.o." and "PO" are the same but for case and dots."""
    return short_form.casefold().replace(".", "")


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
