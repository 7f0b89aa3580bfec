"""`lmcells dataset`: labelled short forms to evaluate on, from CASI or from notes."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmcells.cli import arguments
from lmcells.cli.arguments import REPEATED, Command, Options, note_files, part_of_split, picked
from lmcells.cli.terminal import ProgressLine, Table, account_rows, print_result
from lmcells.errors import InputError
from lmcells.evaluation.casi import OPTIONAL, build_casi_dataset
from lmcells.evaluation.dataset import NoteSplit, write_dataset
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.reverse import build_reverse_dataset, frequent_sections
from lmcells.expansion import load_inventory, save_inventory
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport


def _add_casi(add: Options) -> None:
    add("raw RAW", "the CASI file", type=Path)
    add.dataset_output(senses="remain")
    add("--canonical-forms FILE", "sense names: sf, target_lf_sense, target_label", type=Path)
    add("--section-map FILE", "CSV with two columns, CASI's header and the model's", type=Path)
    add("--match-short-forms DATASET", "keep only short forms of this dataset", type=Path)
    add("--keep-single-sense", "keep short forms that have only one sense left")
    add("--skip", "skip a filter; may be repeated", **REPEATED, choices=OPTIONAL)
    add.json()


def _casi(options: argparse.Namespace) -> None:
    skip = options.skip + ["single-sense"] * options.keep_single_sense
    built = build_casi_dataset(options.raw, **picked(options, build_casi_dataset, skip=skip))
    if built.examples:
        write_dataset(options.output, built.examples)
        if options.inventory_output:
            save_inventory(built.inventory, options.inventory_output)
    summary = {"dataset": str(options.output), **built.account}
    print_result(options, summary, _casi_tables(summary))
    if not built.examples:
        raise InputError(_why_empty(options.raw, summary["steps"]))


def _casi_tables(summary: dict[str, Any]) -> Iterator[Table]:
    """The paper's table of filters, and what else is worth knowing."""
    yield "", account_rows(summary["report"])
    filters = ((step["title"], f"{-step['removed']:>8,} {step['left']:>8,}") for step in summary["steps"])
    yield "filter, rows removed, rows left", [("rows", f"{'':>8} {summary['n_rows']:>8,}"), *filters]
    rows = [
        ("examples", summary["n_examples"]),
        ("short forms", summary["n_short_forms"]),
        ("senses", summary["n_senses"]),
        *((f"end offset {convention}", n) for convention, n in sorted(summary["end_offsets"].items())),
        *((f"section: {how}", n) for how, n in sorted(summary["sections"].items())),
    ]
    if summary["n_without_canonical_form"]:
        rows.append(("without a canonical form (kept as written)", summary["n_without_canonical_form"]))
    yield summary["dataset"], rows


def _why_empty(raw: Path, steps: list[dict[str, Any]]) -> str:
    emptied = next((step for step in steps if step["removed"] and not step["left"]), None)
    if emptied is None:
        return f"{raw} contains no CASI rows. Check the file."
    can_skip = emptied["name"] in OPTIONAL
    advice = f"Skip that filter with --skip {emptied['name']}." if can_skip else "Check the file."
    return f"no row of {raw} is left: '{emptied['title']}' removes the last {emptied['removed']:,}. {advice}"


def _add_reverse(add: Options) -> None:
    add("notes NOTES", "file or folder of notes", nargs="+", type=Path)
    add("--inventory FILE", "senses, CSV, TSV or JSON", required=True, type=Path)
    add.dataset_output(senses="occur")
    drawn = add.group("what is drawn")
    drawn("--max-per-sense N", "maximum number of examples per sense (500)", default=500, type=int)
    text = "keep only short forms all of whose long forms are found N times (paper: 2), with all their senses"
    drawn("--min-found N", text, default=0, type=int)
    drawn("--window N", "words on each side, not counting stop words (20)", default=20, type=int)
    drawn("--seed N", "random seed of the sample (0)", default=0, type=int)
    drawn("--split NAME=SHARE,...", "one dataset per name; a note's part depends on its id")
    drawn("--allow-candidates", "keep windows that contain another long form of the short form")
    drawn("--drop-repeated", "drop examples with the same words as another example of their sense")
    drawn("--spelled-forms", "only forms that contain the short form's letters, in order")
    text = "with --sections paper: headers seen fewer than N times are body text, as in a corpus (1)"
    add.reading()("--min-header-count N", text, default=1, type=int)
    add.json()


def _reverse(options: argparse.Namespace) -> None:
    split = NoteSplit.parse(options.split) if options.split else None
    inventory = load_inventory(options.inventory)
    finder = LongFormFinder(inventory, spelled_only=options.spelled_forms)
    report = ReadReport()
    sections = frequent_sections(
        (note for note in _read_notes(options, ReadReport()) if not (split and split.part_of(note.id))),
        style=options.sections,
        min_count=options.min_header_count,
        header_rules=options.header_rules,
    )
    given: dict[str, Any] = {"notes": _read_notes(options, report), "inventory": inventory, "split": split}
    given |= {"finder": finder, "find_sections": sections}
    parts = build_reverse_dataset(**picked(options, build_reverse_dataset, **given))
    if not any(part.examples for part in parts.values()):
        why = f"no example was found in {report.n_read:,} notes: two senses of a short form must occur"
        raise InputError(f"{why}. Give more notes, or an inventory whose long forms are spelled out in them.")
    datasets = []
    for name, part in parts.items():
        output = part_of_split(options.output, name)
        write_dataset(output, part.examples)
        if options.inventory_output:
            save_inventory(part.inventory, part_of_split(options.inventory_output, name))
        read = {"n_notes": part.n_notes, "n_found": part.n_found, "dropped": dict(part.dropped)}
        short_forms = {target.short_form for target in part.senses}
        drawn = {"n_examples": len(part.examples), "n_short_forms": len(short_forms)}
        rare = [{**target._asdict(), "n_found": n} for target, n in part.too_rare.items()]
        datasets.append(
            {"dataset": str(output), **read, **drawn, "n_senses": len(part.senses), "too_rare": rare}
        )
    summary = {
        "notes": report.to_dict(),
        "n_notes_in_no_part": report.n_read - sum(part.n_notes for part in parts.values()),
        "n_forms": finder.n_forms,
        "dropped_forms": finder.dropped,
        "datasets": datasets,
    }
    print_result(options, summary, _reverse_tables(summary))


def _read_notes(options: argparse.Namespace, report: ReadReport) -> Iterator[Note]:
    with ProgressLine() as line:
        yield from line.counting(note_files(options).read(report))


def _reverse_tables(summary: dict[str, Any]) -> Iterator[Table]:
    """What was read, which forms are not used, and what was drawn."""
    notes, outside = summary["notes"], summary["n_notes_in_no_part"]
    dropped = summary["dropped_forms"]
    rows = [("notes read", notes["n_read"]), *account_rows(notes)]
    rows += [("notes in no part of the split", outside)] if outside else []
    rows += [("forms looked for", summary["n_forms"])]
    rows += [(f"form dropped: {each['short_form']}, {each['form']}", each["reason"]) for each in dropped]
    yield "", rows
    for dataset in summary["datasets"]:
        rows = [("notes", dataset["n_notes"]), ("long forms found", dataset["n_found"])]
        rows += [(f"dropped: {reason}", n) for reason, n in sorted(dataset["dropped"].items())]
        rows += [
            (f"found: {each['short_form']}, {each['long_form']}", each["n_found"])
            for each in dataset["too_rare"]
        ]
        for name in ("examples", "short forms", "senses"):
            rows.append((name, dataset[f"n_{name.replace(' ', '_')}"]))
        yield dataset["dataset"], rows


_CASI = """\
from the hand-labelled CASI file

Read CASI as published by the University of Minnesota (or its CSV re-save), apply the filters of the paper in order, and
print how many rows each one removes.

example:
  lmcells dataset casi AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt --output casi.jsonl \\
    --canonical-forms labeled_sf_lf_map.csv --section-map casi_mimic_section_map.csv \\
    --match-short-forms reverse.jsonl --inventory-output casi_inventory.json"""
_REVERSE = """\
from notes, by reverse substitution

Find the long forms of an inventory in notes, replace each with its short form, and keep the long form as the label.
Every example has the id of its note, so that `lmcells prepare --exclude-ids DATASET` keeps it out of pre-training.

examples:
  lmcells dataset reverse NOTEEVENTS.csv.gz --inventory casi_inventory.json --output mimic_rs.jsonl --sections paper \\
    --min-header-count 10 --min-found 2 --allow-candidates --drop-repeated --inventory-output mimic_rs.json
    (the paper's test set)
  lmcells dataset reverse notes/ --inventory inventory.json --output rs.jsonl --split dev=0.1,test=0.1
    (writes rs.dev.jsonl and rs.test.jsonl; the other notes are left for pre-training)"""
_DATASET = """\
make a dataset of labelled short forms

Make a dataset for evaluation: from CASI, whose short forms were labelled by hand, or from any notes, by replacing
long forms with their short forms (reverse substitution).

examples:
  lmcells dataset casi AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt --output casi.jsonl
  lmcells dataset reverse notes.parquet --inventory inventory.json --output reverse.jsonl"""
_KINDS = {"casi": Command(_CASI, _add_casi, _casi), "reverse": Command(_REVERSE, _add_reverse, _reverse)}
COMMANDS = {"dataset": arguments.command_group(_DATASET, _KINDS, metavar="KIND")}
