"""Finding short forms in the inventory by what they look like or stand for."""

from collections.abc import Sequence

from lmcells.expansion import SenseInventory


class InventorySearch:
    """Short forms that begin with what is searched come first, then those with a long form that holds it."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._keys = [(name.casefold(), name) for name in inventory.short_forms]
        self._long_forms = [
            (
                name,
                " | ".join(form.casefold() for sense in senses for form in (sense.long_form, *sense.forms)),
            )
            for name, senses in inventory.by_short_form.items()
        ]
        self._all = tuple(name for _, name in sorted(self._keys))

    def __call__(self, text: str) -> Sequence[str]:
        """Return the short forms, best first; all of them for no text."""
        wanted = text.casefold().strip()
        if not wanted:
            return self._all
        by_name = sorted((key != wanted, key, name) for key, name in self._keys if key.startswith(wanted))
        found = dict.fromkeys(name for *_, name in by_name)
        found.update(dict.fromkeys(name for name, forms in self._long_forms if wanted in forms))
        return list(found)
