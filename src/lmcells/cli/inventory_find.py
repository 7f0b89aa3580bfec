"""`lmcells inventory find`: an inventory of what notes themselves say their short forms mean."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_json, add_overwrite, at_least
from lmcells.cli.terminal import ProgressLine, account_rows, notes_message, print_json, print_table
from lmcells.errors import InputError
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.inventory import load_inventory, save_inventory
from lmcells.expansion.inventory_mining import DefinitionCounts, ProposedInventory
from lmcells.notes.note import Note
from lmcells.notes.readers import FORMATS, Columns, ReadReport, read_notes

SUMMARY = "propose an inventory from the definitions in notes"
DESCRIPTION = """\
Find what notes themselves say their short forms mean, "atrial fibrillation (AF)" or "AF = atrial fibrillation", and
write it as an inventory. Spellings of one long form are forms of one sense, the most frequent first. Look through it
before you use it: `lmcells inventory check` says where."""
EXAMPLE = """\
examples:
  lmcells inventory find NOTEEVENTS.csv.gz --output senses.csv --min-count 5
  lmcells inventory find notes/ letters.jsonl --output senses.json"""

_SUFFIXES = (".csv", ".json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("notes", nargs="+", type=Path, metavar="NOTES", help="file or folder of notes")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="senses to write: .csv or .json"
    )
    add_overwrite(parser, replaces="an inventory")
    parser.add_argument(
        "--min-count",
        type=at_least(1),
        default=2,
        metavar="N",
        help="notes that must define a sense at least (2)",
    )
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help='senses that are known, for definitions such as "left eye (OS)" (the shipped ones)',
    )
    reading = parser.add_argument_group("reading notes")
    reading.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the notes (found automatically)"
    )
    reading.add_argument("--text-column", metavar="NAME", help="where the text is")
    reading.add_argument("--id-column", metavar="NAME", help="where the id is")
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Find the definitions, write the inventory and print the account."""
    if options.output.suffix.lower() not in _SUFFIXES:
        raise InputError(f"--output {options.output}: its name must end in {' or '.join(_SUFFIXES)}.")
    known = load_inventory(options.inventory) if options.inventory else shipped_inventory()
    report = ReadReport()
    definitions = DefinitionCounts(known)
    with ProgressLine() as line:
        started, n_characters = time.monotonic(), 0
        for note in _read(options, report):
            definitions.add(note)
            n_characters += len(note.text)
            if report.n_read % 100 == 0:
                seconds = time.monotonic() - started
                line.update(notes_message(report.n_read, n_characters, seconds=seconds))
        line.update(f"gathering {definitions.n_wordings:,} definitions")
        proposed = definitions.propose(min_count=options.min_count)
    if not proposed.senses:
        raise InputError(
            f"no definition was found in at least {options.min_count:,} of {report.n_read:,} notes "
            f"({proposed.n_too_rare:,} in fewer). Give more notes, or a smaller --min-count."
        )
    save_inventory(proposed.inventory, options.output)
    summary = summarize(options, definitions, proposed, report=report)
    if options.json:
        print_json(summary)
    else:
        print_summary(summary)


def _read(options: argparse.Namespace, report: ReadReport) -> Iterator[Note]:
    columns = Columns(text=options.text_column, id=options.id_column)
    for path in options.notes:
        yield from read_notes(path, format=options.format, columns=columns, report=report)


def summarize(
    options: argparse.Namespace,
    definitions: DefinitionCounts,
    proposed: ProposedInventory,
    *,
    report: ReadReport,
) -> dict[str, Any]:
    """Plain data about what was found; no long form, which is note text."""
    inventory = proposed.inventory
    return {
        "inventory": str(options.output),
        "notes": report.to_dict(),
        "min_count": options.min_count,
        "n_definitions": definitions.n_definitions,
        "n_wordings": definitions.n_wordings,
        "n_senses_too_rare": proposed.n_too_rare,
        "n_senses": inventory.n_senses,
        "n_short_forms": len(inventory),
        "n_ambiguous_short_forms": sum(len(senses) > 1 for senses in inventory.by_short_form.values()),
    }


def print_summary(summary: dict[str, Any]) -> None:
    """Print what was read, found and kept."""
    n_rare = summary["n_senses_too_rare"]
    print_table(
        [
            ("notes read", summary["notes"]["n_read"]),
            *account_rows(summary["notes"]),
            ("definitions", summary["n_definitions"]),
            ("distinct definitions", summary["n_wordings"]),
            *([(f"skipped: senses in fewer than {summary['min_count']:,} notes", n_rare)] if n_rare else []),
            ("senses", summary["n_senses"]),
            ("short forms", summary["n_short_forms"]),
            ("ambiguous short forms", summary["n_ambiguous_short_forms"]),
        ],
        title=summary["inventory"],
    )
