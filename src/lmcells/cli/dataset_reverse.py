"""`lmcells dataset reverse`: long forms that notes write out, replaced by their short forms."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_dataset_output, add_json, add_reading, part_of_split
from lmcells.cli.terminal import ProgressLine, account_rows, notes_message, print_json, print_table
from lmcells.errors import InputError
from lmcells.evaluation.dataset import NoteSplit, write_dataset
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.reverse import ReversePart, ReverseSettings, build_reverse_dataset, used_inventory
from lmcells.expansion import load_inventory, save_inventory
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.section_styles import section_finder

SUMMARY = "from notes, by reverse substitution"
DESCRIPTION = """\
Find the long forms of an inventory in notes, put their short form in their place, and keep the long form as the label.
Every example names its note, so that `lmcells prepare --exclude-ids DATASET` keeps it out of pre-training."""
EXAMPLE = """\
examples:
  lmcells dataset reverse NOTEEVENTS.csv.gz --inventory casi_inventory.json --output mimic_rs.jsonl --sections paper
  lmcells dataset reverse notes/ --inventory inventory.json --output rs.jsonl --split dev=0.1,test=0.1
    (writes rs.dev.jsonl and rs.test.jsonl; the other notes are left for pre-training)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("notes", nargs="+", type=Path, metavar="NOTES", help="file or folder of notes")
    parser.add_argument("--inventory", required=True, type=Path, metavar="FILE", help="senses, JSON or CSV")
    add_dataset_output(parser, senses="occur")
    drawing = parser.add_argument_group("what is drawn")
    drawing.add_argument(
        "--max-per-sense", type=int, default=500, metavar="N", help="examples of a sense at most (500)"
    )
    drawing.add_argument("--window", type=int, default=20, metavar="N", help="words on each side (20)")
    drawing.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice (0)")
    drawing.add_argument(
        "--split",
        metavar="NAME=SHARE,...",
        help="one dataset a name; by note, fixed by its id",
    )
    drawing.add_argument(
        "--allow-candidates",
        action="store_true",
        help="keep windows where a long form of the same short form stands as well",
    )
    drawing.add_argument(
        "--spelled-forms",
        action="store_true",
        help="only forms that spell the short form, letter by letter in order",
    )
    add_reading(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the examples, write them and print the account."""
    settings = ReverseSettings(
        max_per_sense=options.max_per_sense,
        window=options.window,
        seed=options.seed,
        allow_candidates=options.allow_candidates,
    )
    split = NoteSplit.parse(options.split) if options.split else None
    inventory = load_inventory(options.inventory)
    finder = LongFormFinder(inventory, spelled_only=options.spelled_forms)
    report = ReadReport()
    with ProgressLine() as line:
        parts = build_reverse_dataset(
            _with_progress(_read(options, report), line),
            finder=finder,
            find_sections=section_finder(options.sections, header_rules=options.header_rules),
            settings=settings,
            split=split,
        )
    if not any(part.examples for part in parts.values()):
        raise InputError(
            f"no example was found in {report.n_read:,} notes: a short form needs two senses that occur. "
            "Give more notes, or an inventory whose long forms are written out in them."
        )
    outputs = {name: part_of_split(options.output, name) for name in parts}
    for name, part in parts.items():
        write_dataset(outputs[name], part.examples)
        if options.inventory_output:
            save_inventory(used_inventory(inventory, part), part_of_split(options.inventory_output, name))
    summary = summarize(outputs, parts, finder=finder, report=report)
    if options.json:
        print_json(summary)
    else:
        print_summary(summary)


def _read(options: argparse.Namespace, report: ReadReport) -> Iterator[Note]:
    columns = Columns(text=options.text_column, id=options.id_column)
    for path in options.notes:
        yield from read_notes(path, format=options.format, columns=columns, report=report)


def _with_progress(notes: Iterator[Note], line: ProgressLine) -> Iterator[Note]:
    started, n_characters = time.monotonic(), 0
    for n_notes, note in enumerate(notes, start=1):
        n_characters += len(note.text)
        yield note
        if n_notes % 100 == 0:
            line.update(notes_message(n_notes, n_characters, seconds=time.monotonic() - started))


def summarize(
    outputs: dict[str, Path], parts: dict[str, ReversePart], *, finder: LongFormFinder, report: ReadReport
) -> dict[str, Any]:
    """Plain data about the datasets."""
    return {
        "notes": report.to_dict(),
        "n_notes_in_no_part": report.n_read - sum(part.n_notes for part in parts.values()),
        "n_forms": finder.n_forms,
        "dropped_forms": [form._asdict() for form in finder.dropped],
        "datasets": [
            {
                "dataset": str(outputs[name]),
                "n_notes": part.n_notes,
                "n_found": part.n_found,
                "dropped": dict(part.dropped),
                "n_examples": len(part.examples),
                "n_short_forms": len({target.short_form for target in part.senses}),
                "n_senses": len(part.senses),
            }
            for name, part in parts.items()
        ],
    }


def print_summary(summary: dict[str, Any]) -> None:
    """Print what was read, which forms are not used, and what was drawn."""
    notes, outside = summary["notes"], summary["n_notes_in_no_part"]
    print_table(
        [
            ("notes read", notes["n_read"]),
            *account_rows(notes),
            *([("notes in no part of the split", outside)] if outside else []),
            ("forms looked for", summary["n_forms"]),
            *(
                (f"form dropped: {each['short_form']}, {each['form']}", each["reason"])
                for each in summary["dropped_forms"]
            ),
        ]
    )
    for dataset in summary["datasets"]:
        print_table(
            [
                ("notes", dataset["n_notes"]),
                ("long forms found", dataset["n_found"]),
                *((f"dropped: {reason}", n) for reason, n in sorted(dataset["dropped"].items())),
                ("examples", dataset["n_examples"]),
                ("short forms", dataset["n_short_forms"]),
                ("senses", dataset["n_senses"]),
            ],
            title=dataset["dataset"],
        )
