"""The inventory of a request: the service's own, with the request's changes."""

from collections import OrderedDict

from lmcells.expansion import Sense, SenseInventory
from lmcells.service.requests import InventoryEdits

_KEPT = 8  # as many as the expander keeps what it computed for


class EditedInventories:
    """Inventories by their changes; those used last are kept, so that a session pays for its changes once."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._kept: OrderedDict[InventoryEdits, SenseInventory] = OrderedDict()

    def of(self, edits: InventoryEdits | None) -> SenseInventory:
        """Return the inventory with these changes; InventoryError where they contradict it."""
        if edits is None or not (edits.add or edits.remove):
            return self._inventory
        if edits not in self._kept:
            self._kept[edits] = edited(self._inventory, edits)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(edits)
        return self._kept[edits]


def edited(inventory: SenseInventory, edits: InventoryEdits) -> SenseInventory:
    """Change only the short forms that are named: checking all of a large inventory for each change takes long."""
    removed = {name.short_form: inventory.senses(name.short_form) for name in edits.remove}
    touched = dict.fromkeys([*removed, *(sense.short_form for sense in edits.add)])
    part = SenseInventory({name: inventory.by_short_form[name] for name in touched if name in inventory})
    changed = part.with_senses(
        add=[
            Sense(each.short_form.strip(), each.long_form.strip(), each.forms, each.concept_id)
            for each in edits.add
        ],
        remove=[
            (name.short_form, name.long_form) if name.long_form is not None else name.short_form
            for name in edits.remove
        ],
    )
    kept = {name: senses for name, senses in inventory.by_short_form.items() if name not in touched}
    return SenseInventory({**kept, **changed.by_short_form})
