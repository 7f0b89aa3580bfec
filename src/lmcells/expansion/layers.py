"""Inventories in layers: the shipped one, then the site's, then the call's.

    mine = extend(shipped_inventory(), "site.csv")
    mine = extend(mine, [{"short_form": "MS", "long_form": "mitral stenosis", "action": "pin",
                          "where": {"section": "CARDIOLOGY"}}])

A rule adds, forbids or pins a sense, everywhere or where the section, the note's type or other metadata have a value.
A later layer is stronger than an earlier one, and in one layer a rule with more conditions than one with fewer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from lmcells.expansion.inventory import (
    ALL_SENSES,
    InventoryLike,
    Sense,
    SenseInventory,
    SenseLike,
    SenseRule,
    as_rules,
    form_key,
    load_rules,
)
from lmcells.notes.sections import AliasTable, find_alias, upper_name

LayerLike = InventoryLike | Iterable[SenseLike | Path | str]
SECTION = "section"


def extend(inventory: SenseInventory, layer: LayerLike) -> SenseInventory:
    """Return an inventory with a layer laid over it: a file, an inventory, a list of senses and rules, or of files."""
    for rules in read_layers(layer):
        inventory = _extended(inventory, rules) if rules else inventory
    return inventory


def read_layers(layer: LayerLike) -> list[list[SenseRule]]:
    """Return the rules of a layer, the weakest first; of several files, those of each by themselves."""
    if isinstance(layer, Iterable) and not isinstance(layer, str | Path | SenseInventory | Mapping):
        layer = list(layer)
        if layer and all(isinstance(each, str | Path) for each in layer):
            return [rules for file in layer for rules in read_layers(file)]  # type: ignore[arg-type]
    if isinstance(layer, str | Path):
        rules = [rule for _, rule in load_rules(Path(layer))]
    else:
        rules = list(_rules_of(layer)) if isinstance(layer, SenseInventory) else as_rules(layer)  # type: ignore[arg-type]
    return [sorted(rules, key=lambda rule: len(rule.where))]


def _extended(inventory: SenseInventory, rules: list[SenseRule]) -> SenseInventory:
    rules_of: dict[str, list[SenseRule]] = {}
    for rule in rules:
        rules_of.setdefault(rule.sense.short_form, []).append(rule)
    by_short_form, all_rules = dict(inventory.by_short_form), dict(inventory.rules)
    for short_form, own in rules_of.items():
        senses = by_short_form.get(short_form, ())
        if short_form in all_rules or any(rule.where or rule.action == "pin" for rule in own):
            below = all_rules.get(short_form) or map(SenseRule, senses)
            all_rules[short_form] = (*below, *own)
            for rule in own:
                senses = senses if rule.action == "forbid" else _with(senses, rule.sense)
        else:
            for rule in own:
                senses = (
                    _without(senses, rule.sense) if rule.action == "forbid" else _with(senses, rule.sense)
                )
        by_short_form[short_form] = senses
    return replace(inventory, by_short_form=by_short_form, rules=all_rules)


def _rules_of(inventory: SenseInventory) -> Iterator[SenseRule]:
    for short_form, senses in inventory.by_short_form.items():
        if not senses:
            yield SenseRule(Sense(short_form, ALL_SENSES), "forbid")
        yield from inventory.rules.get(short_form) or map(SenseRule, senses)


def _with(senses: Sequence[Sense], added: Sense) -> tuple[Sense, ...]:
    """Add a sense; one that is there already gets the new forms and concept."""
    for at, sense in enumerate(senses):
        if sense.key == added.key:
            forms = tuple(dict.fromkeys((*sense.forms, *added.forms)))
            concept = added.concept_id or sense.concept_id
            is_error_prone = sense.error_prone or added.error_prone
            merged = replace(sense, forms=forms, concept_id=concept, error_prone=is_error_prone)
            return (*senses[:at], merged, *senses[at + 1 :])
    return (*senses, added)


def _without(senses: Sequence[Sense], forbidden: Sense) -> tuple[Sense, ...]:
    return tuple(sense for sense in senses if not _is_meant(sense, forbidden))


def _is_meant(sense: Sense, forbidden: Sense) -> bool:
    """Whether a rule forbids a sense: by any of the ways to write it."""
    if forbidden.long_form == ALL_SENSES:
        return True
    return form_key(forbidden.long_form) in map(form_key, (sense.long_form, *sense.forms))


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a short form may mean at one place: senses by their position in the inventory, or the pinned one."""

    senses: tuple[int, ...]
    pinned: Sense | None = None


class PlaceRules:
    """Says which senses of a short form the rules of an inventory allow in a section of a note.

    allowed = PlaceRules(inventory, load_aliases())
    allowed("MS", "CARDIOLOGY", {"category": "Echo"})   # Allowed, None where the inventory has no rules for it
    """

    def __init__(self, inventory: SenseInventory, aliases: AliasTable) -> None:
        self._inventory = inventory
        self._aliases = aliases
        self._patterns: dict[str, list[list[tuple[str, str]]]] = {}  # of the rules of a short form

    def __call__(
        self, short_form: str, section: str, metadata: Mapping[str, object] | None = None
    ) -> Allowed | None:
        rules = self._inventory.rules.get(short_form)
        if rules is None:
            return None
        if short_form not in self._patterns:
            self._patterns[short_form] = [
                [(name, self._pattern(name, value)) for name, value in rule.where] for rule in rules
            ]
        given = {
            name.lower(): " ".join(str(value).casefold().split()) for name, value in (metadata or {}).items()
        }
        given[SECTION] = self._section(section).casefold()
        senses = self._inventory.by_short_form[short_form]
        allowed: dict[int, None] = {}
        pinned: int | None = None
        for rule, where in zip(rules, self._patterns[short_form], strict=True):
            if not all(given.get(name) and fnmatchcase(given[name], pattern) for name, pattern in where):
                continue
            if rule.action == "forbid":
                for at in [at for at in allowed if _is_meant(senses[at], rule.sense)]:
                    del allowed[at]
                    pinned = None if at == pinned else pinned
            else:
                at = next(at for at, sense in enumerate(senses) if sense.key == rule.sense.key)
                allowed[at] = None
                pinned = at if rule.action == "pin" else pinned
        return Allowed(tuple(sorted(allowed)), None if pinned is None else senses[pinned])

    def _pattern(self, name: str, value: str) -> str:
        written = self._section(value) if name == SECTION else " ".join(value.split())
        return written.casefold().replace("[", "[[]")  # only "*" and "?" stand for something else

    def _section(self, name: str) -> str:
        """Return the name of a section, by any of its aliases."""
        alias = find_alias(self._aliases, name) if name else None
        return alias.name if alias is not None and alias.name else upper_name(name)
