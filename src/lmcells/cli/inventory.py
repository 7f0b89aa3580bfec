"""`lmcells inventory`: what a model can know of a sense inventory, and a model that knows more of it."""

import argparse

from lmcells.cli import inventory_check, inventory_compile
from lmcells.cli.arguments import Command, add_command

SUMMARY = "check a sense inventory, or compile it into a model"
DESCRIPTION = """\
Check a sense inventory: entries that say the same twice, and what a model knows of each sense. Or compile it: a copy of
a model that also knows its long forms by where they stand in a corpus."""
EXAMPLE = """\
examples:
  lmcells inventory check senses.csv
  lmcells inventory compile senses.csv --corpus corpus --model model --output model-with-senses"""

ACTIONS: dict[str, Command] = {"check": inventory_check, "compile": inventory_compile}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        add_command(actions, name, action)


def run(options: argparse.Namespace) -> None:
    """Check or compile."""
    ACTIONS[options.action].run(options)
