"""`lmcells dataset`: labelled short forms to evaluate on, from CASI or from notes."""

import argparse
from typing import Any

from lmcells.cli import dataset_casi, dataset_reverse
from lmcells.cli.arguments import add_command
from lmcells.errors import InputError

SUMMARY = "make a dataset of labelled short forms"
DESCRIPTION = """\
Make a dataset to evaluate on: from CASI, whose short forms were labelled by hand, or from any notes, where long forms
that are written out become their short forms (reverse substitution)."""
EXAMPLE = """\
examples:
  lmcells dataset casi AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt --output casi.jsonl
  lmcells dataset reverse notes.parquet --inventory inventory.json --output reverse.jsonl"""

KINDS: dict[str, Any] = {"casi": dataset_casi, "reverse": dataset_reverse}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kinds of dataset, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, kind in KINDS.items():
        add_command(kinds, name, kind)


def run(options: argparse.Namespace) -> None:
    """Make the dataset, unless it would take the place of what it is made from."""
    inputs = [options.raw] if options.kind == "casi" else options.notes
    if options.output.resolve() in [path.resolve() for path in inputs]:
        raise InputError(f"--output {options.output} is also an input. Give the dataset a name of its own.")
    KINDS[options.kind].run(options)
