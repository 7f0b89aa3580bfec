"""The exceptions of this package, as one tree.

    LmcellsError
    └── InputError           the user's input cannot be used (exit code 2, one line)
        ├── FormatError      a file does not follow its format
        ├── CorpusError      a corpus folder is missing, damaged, or was made by a newer version
        ├── ModelError       a model folder is missing, damaged, or was made by a newer version
        ├── ConfigError      a setting is unknown or out of range
        ├── InventoryError   a sense inventory is malformed, or contradicts itself
        │   └── UnknownShortForm  a short form is not in the inventory
        └── MissingExtra     an optional dependency is not installed

A message says what is wrong, what was found, what is allowed and what to do next. It never quotes note text: notes are
patient data.
"""

import difflib
from collections.abc import Iterable


class LmcellsError(Exception):
    """Base class of the exceptions of this package."""


class InputError(LmcellsError):
    """The user's input cannot be used."""


class FormatError(InputError):
    """A file does not follow its format."""


class CorpusError(InputError):
    """A corpus folder is missing, damaged, or was made by a newer version."""


class ModelError(InputError):
    """A model folder is missing, damaged, or was made by a newer version."""


class ConfigError(InputError):
    """A setting is unknown or out of range."""


class InventoryError(InputError):
    """A sense inventory is malformed, or contradicts itself."""


class UnknownShortForm(InventoryError):  # noqa: N818 - it names a thing, like MissingExtra
    """A short form is not in the inventory."""


class MissingExtra(InputError):  # noqa: N818 - it names a thing, like KeyError's key
    """An optional dependency is not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed. Run: pip install 'lmcells[{extra}]'"
        )


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return " Nearest: 'x'." for an error message, or "" if no choice is similar."""
    matches = difflib.get_close_matches(name, list(choices), n=1)
    return f" Nearest: {matches[0]!r}." if matches else ""
