"""From a short form in its context to ranked long forms."""

from lmcells.expansion.inventory import Sense, SenseInventory, load_inventory, save_inventory

__all__ = ["Sense", "SenseInventory", "load_inventory", "save_inventory"]
