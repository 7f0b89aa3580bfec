"""A service whose model was set by hand: "history" is near to smoking under SOCIAL HISTORY, to mother under FAMILY."""

from pathlib import Path

from analysis.planted import planted_model
from lmcells import Expander
from lmcells.expansion import Sense, SenseInventory, save_inventory

INVENTORY = SenseInventory.from_senses(
    [
        Sense("SM", "smoking", ("smoking",)),
        Sense("SM", "sodium", ("sodium",)),
        Sense("SM", "mother", ("mother",)),
        Sense("AL", "alcohol", ("alcohol",)),
    ]
)


def plant(folder: Path) -> Expander:
    """Write `model` and `inventory.csv` into a folder, as `served` opens them, and open them."""
    model = planted_model(folder)
    save_inventory(INVENTORY, folder / "inventory.csv")
    return Expander(model, INVENTORY)
