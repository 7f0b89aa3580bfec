"""`lmcells dataset casi`: the labelled rows of CASI that pass the paper's filters."""

import argparse
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_dataset_output, add_json
from lmcells.cli.terminal import account_rows, print_json, print_table
from lmcells.errors import InputError
from lmcells.evaluation.casi import OPTIONAL, CasiDataset, build_casi_dataset, load_canonical_forms
from lmcells.evaluation.dataset import read_dataset, write_dataset
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import save_inventory
from lmcells.notes.readers import ReadReport

SUMMARY = "from the hand-labelled CASI file"
DESCRIPTION = """\
Read CASI as published by the University of Minnesota (or its CSV re-save), apply the filters of the paper in order, and
print how many rows each one removes."""
EXAMPLE = """\
example:
  lmcells dataset casi AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt --output casi.jsonl \\
    --canonical-forms labeled_sf_lf_map.csv --section-map casi_mimic_section_map.csv \\
    --match-short-forms reverse.jsonl --inventory-output casi_inventory.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("raw", type=Path, metavar="RAW", help="the CASI file")
    add_dataset_output(parser, senses="are left")
    parser.add_argument(
        "--canonical-forms",
        type=Path,
        metavar="FILE",
        help="names of the senses: sf, target_lf_sense, target_label",
    )
    parser.add_argument(
        "--section-map", type=Path, metavar="FILE", help="CSV of two columns, CASI's header and the model's"
    )
    parser.add_argument(
        "--match-short-forms", type=Path, metavar="DATASET", help="keep only short forms of this dataset"
    )
    parser.add_argument(
        "--keep-single-sense", action="store_true", help="keep short forms that are left with one sense"
    )
    parser.add_argument(
        "--skip", action="append", default=[], choices=OPTIONAL, help="leave a filter out; may be repeated"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Write the dataset and print what each filter removed."""
    report = ReadReport()
    built = build_casi_dataset(
        options.raw,
        canonical_forms=load_canonical_forms(options.canonical_forms) if options.canonical_forms else None,
        section_map=load_section_map(options.section_map) if options.section_map else None,
        match_short_forms=_short_forms(options.match_short_forms) if options.match_short_forms else None,
        skip={*options.skip, *(("single-sense",) if options.keep_single_sense else ())},
        report=report,
    )
    if built.examples:
        write_dataset(options.output, built.examples)
        if options.inventory_output:
            save_inventory(built.inventory, options.inventory_output)
    if options.json:
        print_json({"dataset": str(options.output), **summarize(built, report)})
    else:
        print_summary(options.output, built, report)
    if not built.examples:
        raise InputError(_why_empty(options.raw, built))


def _short_forms(path: Path) -> frozenset[str]:
    return frozenset(example.short_form for example in read_dataset(path, report=ReadReport()))


def _why_empty(raw: Path, built: CasiDataset) -> str:
    emptied = next((step for step in built.steps if step.n_removed and not step.n_left), None)
    if emptied is None:
        return f"{raw} holds no row of CASI. Check the file."
    advice = (
        f"Leave that filter out with --skip {emptied.name}."
        if emptied.name in OPTIONAL
        else "Check the file."
    )
    return f"no row of {raw} is left: '{emptied.title}' removes the last {emptied.n_removed:,}. {advice}"


def summarize(built: CasiDataset, report: ReadReport) -> dict[str, Any]:
    """Plain data about the dataset."""
    return {
        "n_rows": built.n_rows,
        "n_examples": len(built.examples),
        "n_short_forms": len(built.inventory),
        "n_senses": built.inventory.n_senses,
        "steps": [
            {"name": step.name, "removed": step.n_removed, "left": step.n_left, "title": step.title}
            for step in built.steps
        ],
        "end_offsets": dict(built.end_offsets),
        "sections": dict(built.sections),
        "n_without_canonical_form": built.n_without_canonical_form,
        "report": report.to_dict(),
    }


def print_summary(output: Path, built: CasiDataset, report: ReadReport) -> None:
    """Print the paper's table of filters, and what else is worth knowing."""
    print_table(account_rows(report.to_dict()))
    print_table(
        [
            ("rows", f"{'':>8} {built.n_rows:>8,}"),
            *((step.title, f"{-step.n_removed:>8,} {step.n_left:>8,}") for step in built.steps),
        ],
        title="filter, rows removed, rows left",
    )
    rows = [
        ("examples", len(built.examples)),
        ("short forms", len(built.inventory)),
        ("senses", built.inventory.n_senses),
        *((f"end offset {convention}", n) for convention, n in sorted(built.end_offsets.items())),
        *((f"section: {how}", n) for how, n in sorted(built.sections.items())),
    ]
    if built.n_without_canonical_form:
        rows.append(("without a canonical form (kept as written)", built.n_without_canonical_form))
    print_table(rows, title=str(output))
