"""From a short form in its context to ranked long forms."""

from lmcells.expansion.expanded_text import ExpandedText, OffsetMap, expand_text
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.inventory import Sense, SenseInventory, SenseRule
from lmcells.expansion.inventory_files import load_inventory, save_inventory
from lmcells.expansion.layers import extend

__all__ = [
    "Candidate", "ExpandedText", "Expansion", "OffsetMap", "Sense", "SenseInventory", "SenseRule",
    "expand_text", "extend", "load_inventory", "save_inventory",
]  # fmt: skip
