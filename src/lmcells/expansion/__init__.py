"""From a short form in its context to ranked long forms."""

from lmcells.expansion.expanded_text import ExpandedText, OffsetMap, expand_text
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.inventory import Sense, SenseInventory, load_inventory, save_inventory

__all__ = [
    "Candidate",
    "ExpandedText",
    "Expansion",
    "OffsetMap",
    "Sense",
    "SenseInventory",
    "expand_text",
    "load_inventory",
    "save_inventory",
]
