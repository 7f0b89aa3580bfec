"""Which sense of a short form some words spell out, whatever their case, number and hyphens."""

import re

from lmcells.expansion.inventory import Sense, SenseInventory

_WORD = re.compile(r"[^\W_]+")


def form_key(form: str) -> tuple[str, ...]:
    """Return what all ways to write a long form share: no case, no hyphens, each word in the singular."""
    return tuple(_singular(word) for word in _WORD.findall(form.lower()))


def _singular(word: str) -> str:
    if len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") else word


class SenseLookup:
    """Find senses by any of their forms.

    lookup = SenseLookup(inventory)
    lookup("PT", "Physical Therapies")   # Sense("PT", "physical therapy", ...)
    """

    def __init__(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._by_form: dict[str, dict[tuple[str, ...], Sense]] = {}

    def __call__(self, short_form: str, words: str) -> Sense | None:
        """Return the sense, None where the inventory has none of that form for the short form."""
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
