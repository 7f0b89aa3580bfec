"""`lmcells inventory`: a sense inventory from notes, what a model can know of it, and a model that knows more."""

import argparse
from typing import Any

from lmcells.cli import inventory_check, inventory_compile, inventory_find
from lmcells.cli.arguments import add_command

SUMMARY = "find, check or compile a sense inventory"
DESCRIPTION = """\
Find a sense inventory: what notes themselves say their short forms mean. Check it: entries that say the same twice, and
what a model knows of each sense. Or compile it: a copy of a model that also knows its long forms by where they stand in
a corpus."""
EXAMPLE = """\
examples:
  lmcells inventory find notes/ --output senses.csv
  lmcells inventory check senses.csv
  lmcells inventory compile senses.csv --corpus corpus --model model --output model-with-senses"""

ACTIONS: dict[str, Any] = {
    "find": inventory_find,
    "check": inventory_check,
    "compile": inventory_compile,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        add_command(actions, name, action)


def run(options: argparse.Namespace) -> None:
    """Find, check or compile."""
    ACTIONS[options.action].run(options)
