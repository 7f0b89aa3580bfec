"""Zero-shot clinical acronym expansion by Latent Meaning Cells.

from lmcells import Expander
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `Expander` only when it is asked for; by its name, since this module stands below all stages."""
    if name == "Expander":
        return import_module("lmcells.expansion.expander").Expander
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
