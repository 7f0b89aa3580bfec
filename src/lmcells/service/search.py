"""Finding names as they are typed: short forms of the inventory, words and sections of the model."""

import difflib
from collections.abc import Mapping, Sequence

from lmcells.expansion import SenseInventory

_MAX_COMPARED = 10_000  # comparing spellings is slow, and rare names help nobody
_MIN_SIMILARITY = 0.6


class InventorySearch:
    """Finds short forms that begin with a text, then those with a long form that contains it."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._keys = [(name.casefold(), name) for name in inventory.short_forms]
        self._long_forms = long_forms_of(inventory)
        self._all = tuple(name for _, name in sorted(self._keys))

    def __call__(self, text: str) -> Sequence[str]:
        """Return the short forms, best first; all of them for an empty text."""
        wanted = text.casefold().strip()
        if not wanted:
            return self._all
        by_name = sorted((key != wanted, key, name) for key, name in self._keys if key.startswith(wanted))
        by_long_form = (name for name, forms in self._long_forms.items() if wanted in forms)
        return list(dict.fromkeys([*(name for *_, name in by_name), *by_long_form]))


def long_forms_of(inventory: SenseInventory) -> dict[str, str]:
    """Return the text to search for each short form: its long forms, in lower case."""
    return {
        name: " | ".join(form.casefold() for sense in senses for form in (sense.long_form, *sense.forms))
        for name, senses in inventory.by_short_form.items()
    }


class NameSearch:
    """Finds names that begin with a text, most frequent first, then those that contain it; else the nearest.

    A name contains what its entry in `searched` does.
    """

    def __init__(self, counts: Mapping[str, int], *, searched: Mapping[str, str] | None = None) -> None:
        self._names = sorted(counts, key=lambda name: -counts[name])
        self._counts = counts
        self._keys = [name.casefold() for name in self._names]
        self._compared = dict(zip(self._keys[:_MAX_COMPARED], self._names, strict=False))
        self._searched = searched or {}

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __call__(self, text: str, *, limit: int) -> list[tuple[str, int]]:
        """Return names with their counts, best first. Unless there are no names at all, at least one is found."""
        wanted = text.casefold().strip()
        begin = [
            (key != wanted, name)
            for key, name in zip(self._keys, self._names, strict=True)
            if key.startswith(wanted)
        ]
        found = [name for _, name in sorted(begin, key=lambda each: each[0])]
        if len(found) < limit and wanted:
            containing = (name for name, text in self._searched.items() if wanted in text)
            found = list(dict.fromkeys([*found, *containing]))
        return [(name, self._counts[name]) for name in (found or self._nearest(wanted, limit=limit))[:limit]]

    def _nearest(self, wanted: str, *, limit: int) -> list[str]:
        similar = difflib.get_close_matches(wanted, self._compared, n=limit, cutoff=_MIN_SIMILARITY)
        if similar:
            return [self._compared[key] for key in similar]
        same_letter = [
            name for key, name in zip(self._keys, self._names, strict=True) if key[:1] == wanted[:1]
        ]
        return same_letter or self._names
