"""`lmcells inspect`: look inside a trained model."""

import argparse
from importlib import import_module

from lmcells.cli.arguments import add_command

SUMMARY = "look inside a trained model"
DESCRIPTION = """\
Look inside a trained model: what words and sections mean to it, how much it leans on a section, and how sure it is.
Each view prints a table; --json gives the data, --output writes a figure."""
EXAMPLE = """\
examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg"""

VIEWS: tuple[str, ...] = (
    "neighbors",
    "senses",
    "sections",
    "gate",
    "interpolate",
    "mixtures",
    "vectors",
    "uncertainty",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the views, each with its options."""
    views = parser.add_subparsers(dest="view", metavar="VIEW", required=True)
    for name in VIEWS:
        view = import_module(f"lmcells.cli.inspect_{name}")
        add_command(views, name, view).set_defaults(show=view.run)


def run(options: argparse.Namespace) -> None:
    """Show one view."""
    options.show(options)
