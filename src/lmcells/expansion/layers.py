"""Inventories in layers: the shipped one, the site's, the call's.

    mine = extend(shipped_inventory(), "site.csv")
    mine = extend(mine, [{"short_form": "MS", "long_form": "mitral stenosis", "action": "pin",
                          "where": {"section": "CARDIOLOGY"}}])

A rule adds, forbids or pins a sense: everywhere, or for certain values of the section, the note type or other metadata.
A later layer overrides an earlier one, and within a layer a rule with more conditions overrides one with fewer.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from lmcells.errors import InputError
from lmcells.expansion.inventory import ALL_SENSES, Action, Sense, SenseInventory, SenseRule, form_key
from lmcells.expansion.inventory_files import InventoryLike, SenseLike, as_rules, load_rules
from lmcells.notes.note import metadata_text
from lmcells.notes.sections import AliasTable, canonical_name

LayerLike = InventoryLike | Iterable[SenseLike | Path | str]
SHIPPED_INVENTORY = "clinical_inventory.csv"
SECTION = "section"


@cache
def shipped_inventory() -> SenseInventory:
    """Return the inventory that comes with the package: equal to `load_inventory`, in half the time."""
    path = resources.files(__package__).joinpath(SHIPPED_INVENTORY)
    if not path.is_file():
        raise InputError("this build has no inventory. Give one: inventory=FILE, JSON or CSV.")
    senses: dict[str, list[Sense]] = {}
    for row in list(csv.reader(path.read_text("utf-8").splitlines()))[1:]:
        short_form, long_form, forms, concept_id, *error_prone = row
        sense = Sense(
            short_form,
            long_form,
            tuple(forms.split(";")) if forms else (),
            concept_id or None,
            "yes" in error_prone,
        )
        senses.setdefault(short_form, []).append(sense)
    return SenseInventory({name: tuple(found) for name, found in senses.items()}, has_priors=True)


def extend(inventory: SenseInventory, layer: LayerLike) -> SenseInventory:
    """Return an inventory extended by a layer: a file, an inventory, a list of senses and rules, or of files."""
    for rules in read_layers(layer):
        inventory = _extended(inventory, rules) if rules else inventory
    return inventory


def read_layers(layer: LayerLike) -> list[list[SenseRule]]:
    """Return the rules of a layer, the weakest first; each of several files is a separate layer."""
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
        keys_of = cache(_form_keys)
        senses = {sense.key: sense for sense in by_short_form.get(short_form, ())}
        is_ruled = bool(all_rules.get(short_form)) or any(rule.where or rule.action == "pin" for rule in own)
        if is_ruled:
            below = all_rules.get(short_form) or map(SenseRule, senses.values())
            all_rules[short_form] = (*below, *own)
        for rule in own:
            if rule.action != "forbid":
                senses[rule.sense.key] = _merged(senses.get(rule.sense.key), rule.sense)
            elif not is_ruled:  # otherwise the rule decides per context
                kept = list(senses.values())
                for at in _forbidden(kept, rule.sense, keys_of):
                    del senses[kept[at].key]
                all_rules.setdefault(short_form, ())  # nor may the grammar read it so
        by_short_form[short_form] = tuple(senses.values())
    return replace(inventory, by_short_form=by_short_form, rules=all_rules)


def _rules_of(inventory: SenseInventory) -> Iterator[SenseRule]:
    for short_form, senses in inventory.by_short_form.items():
        if not senses:
            yield SenseRule(Sense(short_form, ALL_SENSES), "forbid")
        yield from inventory.rules.get(short_form) or map(SenseRule, senses)


def _merged(known: Sense | None, added: Sense) -> Sense:
    """Return an added sense; an existing one gets the new forms and concept."""
    if known is None:
        return added
    forms = tuple(dict.fromkeys((*known.forms, *added.forms)))
    concept = added.concept_id or known.concept_id
    return replace(known, forms=forms, concept_id=concept, error_prone=known.error_prone or added.error_prone)


_KeysOf = Callable[[str, tuple[str, ...]], frozenset[tuple[str, ...]]]


def _forbidden(senses: Sequence[Sense], forbidden: Sense, keys_of: _KeysOf) -> list[int]:
    """Return the indices of the senses that a rule forbids, by any of their forms.

    `keys_of` is `_form_keys`, cached for one short form only: nothing may outlive its inventory.
    """
    if forbidden.long_form == ALL_SENSES:
        return list(range(len(senses)))
    key = form_key(forbidden.long_form)
    return [at for at, sense in enumerate(senses) if key in keys_of(sense.long_form, sense.forms)]


def _form_keys(long_form: str, forms: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(map(form_key, (long_form, *forms)))


def standalone(given: LayerLike) -> SenseInventory:
    """Return the given senses as an inventory of their own, without the shipped ones."""
    inventory = given if isinstance(given, SenseInventory) else extend(SenseInventory(), given)
    if not len(inventory):
        raise InputError("the inventory is empty. Give at least one sense.")
    return inventory


@dataclass(frozen=True, slots=True)
class Allowed:
    """The senses that a short form may have in one context, by their index in the inventory, or the pinned one."""

    senses: tuple[int, ...]
    pinned: Sense | None = None


class _CompiledRule(NamedTuple):
    action: Action
    senses: list[int]  # indices of those that it adds, forbids or pins
    where: list[tuple[str, re.Pattern[str]]]


class ContextRules:
    """Decides which senses the rules of an inventory allow for a short form in a section of a note.

    allowed = ContextRules(inventory, load_aliases())
    allowed("MS", "CARDIOLOGY", {"category": "Echo"})   # Allowed; None if the inventory has no rules for it
    """

    def __init__(self, inventory: SenseInventory, aliases: AliasTable) -> None:
        self._inventory = inventory
        self._aliases = aliases
        self._rules: dict[str, list[_CompiledRule]] = {}

    def __call__(
        self, short_form: str, section: str, metadata: Mapping[str, object] | None = None
    ) -> Allowed | None:
        if not self._inventory.rules.get(short_form):
            return None
        given = {
            str(name).lower(): " ".join(metadata_text(value).casefold().split())
            for name, value in (metadata or {}).items()
        }
        # Text under no header may be from a section that only its metadata name, as where each row is a section.
        given[SECTION] = canonical_name(self._aliases, section or given.get(SECTION, "")).casefold()
        if short_form not in self._rules:
            self._rules[short_form] = list(self._compiled(short_form))
        allowed: set[int] = set()
        pinned: int | None = None
        for action, senses, where in self._rules[short_form]:
            if not all(given.get(name) and pattern.match(given[name]) for name, pattern in where):
                continue
            if action == "forbid":
                allowed.difference_update(senses)
                pinned = None if pinned in senses else pinned
            else:
                allowed.update(senses)
                pinned = senses[0] if action == "pin" else pinned
        of_all = self._inventory.by_short_form[short_form]
        return Allowed(tuple(sorted(allowed)), None if pinned is None else of_all[pinned])

    def _compiled(self, short_form: str) -> Iterator[_CompiledRule]:
        senses = self._inventory.by_short_form[short_form]
        at = {sense.key: index for index, sense in enumerate(senses)}
        keys_of = cache(_form_keys)
        for rule in self._inventory.rules[short_form]:
            is_forbidding = rule.action == "forbid"
            named = _forbidden(senses, rule.sense, keys_of) if is_forbidding else [at[rule.sense.key]]
            where = [(name, re.compile(self._pattern(name, value))) for name, value in rule.where]
            yield _CompiledRule(rule.action, named, where)

    def _pattern(self, name: str, value: str) -> str:
        written = canonical_name(self._aliases, value) if name == SECTION else " ".join(value.split())
        return translate(written.casefold().replace("[", "[[]"))  # "*" and "?" are the only wildcards
