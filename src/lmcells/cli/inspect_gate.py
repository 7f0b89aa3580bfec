"""`lmcells inspect gate`: how much a model leans on the section, and how much on the words."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lmcells.analysis.gate import (
    LEAST_EXAMPLES,
    Check,
    GateSummary,
    Place,
    SectionGate,
    WeighedExample,
    check_gate,
    places_in_notes,
    places_of_examples,
    spread,
    summarise_gate,
    weigh,
    weigh_alone,
)
from lmcells.cli.arguments import add_reading, at_least
from lmcells.cli.inspect_options import add_top, add_view_options, open_model, with_interval, write_figure
from lmcells.cli.inspect_ranking import add_ranking_options, open_ranker
from lmcells.cli.terminal import print_columns, print_json
from lmcells.errors import InputError
from lmcells.evaluation.dataset import read_dataset
from lmcells.expansion.inventory import SenseInventory
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "how much weight sections get against words"
DESCRIPTION = """\
Say how much weight the gate gives to the section of each short form; the rest goes to the words around it. Short forms
are those of a dataset, or those found in notes or in a text. Printed are the weights by section, whether short and
topical sections get more, as the paper saw, and a few examples with the words right around them."""
EXAMPLE = """\
examples:
  lmcells inspect gate --text "MEDICATIONS: MS 2 mg IV prn."
  lmcells inspect gate notes/ --sections rules --examples 0
  lmcells inspect gate --dataset rs.jsonl --output gate.svg"""

_WIDEST = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument("notes", nargs="*", type=Path, metavar="NOTES", help="file or folder of notes")
    parser.add_argument(
        "--dataset",
        type=Path,
        metavar="DATASET",
        help="JSON lines that `lmcells dataset` wrote, in the place of notes",
    )
    parser.add_argument("--text", metavar="TEXT", help="one note, in the place of files")
    add_top(parser, what="sections, those with the most weight", default=20)
    parser.add_argument(
        "--examples",
        type=at_least(0),
        default=8,
        metavar="N",
        help="show N short forms with the words around them, from the least weight to the most (8)",
    )
    add_ranking_options(parser)
    add_reading(parser)
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Weigh the short forms and show what comes out."""
    if [bool(options.notes), options.dataset is not None, options.text is not None].count(True) != 1:
        raise InputError("give one of: NOTES, --dataset DATASET, --text TEXT.")
    model = open_model(options)
    ranker = open_ranker(options, model)
    report = ReadReport()
    examples = list(weigh(ranker, _places(options, ranker.inventory, report)))
    for reason, n in report.skipped.items():
        where = report.first_seen[reason]
        print(f"lmcells inspect: {n:,} skipped: {reason} (first at {where})", file=sys.stderr)
    if not examples:
        raise InputError(
            "no short form of the inventory was found. Give other notes, or another --inventory."
        )
    summary, alone = summarise_gate(ranker, examples), weigh_alone(ranker)
    checks = check_gate(examples, summary, alone)
    shown = spread(examples, n=options.examples)

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_gate

        return draw_gate(summary, checks, alone)

    write_figure(options, draw)
    if options.json:
        print_json(
            {
                "model": str(model.folder),
                "summary": summary.to_dict(),
                "checks": [check.to_dict() for check in checks],
                "examples": [example.to_dict() for example in shown],
                "sections_alone": [asdict(section) for section in alone],
            }
        )
    else:
        print_summary(summary, n_shown=options.top)
        print_checks(checks)
        print_examples(shown)


def _places(options: argparse.Namespace, inventory: SenseInventory, report: ReadReport) -> Iterator[Place]:
    if options.dataset is not None:
        examples = read_dataset(options.dataset, report=report)
        # Any short form has a gate; an inventory that is given says which of them are meant.
        return places_of_examples(
            each for each in examples if options.inventory is None or each.short_form in inventory
        )
    return places_in_notes(
        _notes(options, report), inventory, sections=options.sections, header_rules=options.header_rules
    )


def _notes(options: argparse.Namespace, report: ReadReport) -> Iterator[Note]:
    if options.text is not None:
        yield Note("text", options.text)
    columns = Columns(text=options.text_column, id=options.id_column)
    for path in options.notes:
        yield from read_notes(path, format=options.format, columns=columns, report=report)


def print_summary(summary: GateSummary, *, n_shown: int) -> None:
    """Print the sections with enough examples, those with the most weight first."""
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES] or summary.sections
    print(
        f"weight of the section: mean {summary.mean:.3f}, deviation {summary.deviation:.3f}; {summary.n:,} short "
        f"forms, {len(summary.sections):,} sections"
    )
    knows_lengths = any(section.n_section_tokens is not None for section in sections)
    print_columns([_header(knows_lengths), *(_row(each, knows_lengths) for each in sections[:n_shown])])
    n_left_out = len(summary.sections) - min(len(sections), n_shown)
    if n_left_out:
        print(
            f"  and {n_left_out:,} more with less weight or fewer than {LEAST_EXAMPLES} examples: --json has all"
        )


def _header(with_length: bool) -> tuple[str, ...]:
    of_training = ("training tokens", "topicality")
    length = ("length",) if with_length else ()
    return ("section", "n", "mean", "dev", "10 %", "median", "90 %", "words", *length, *of_training)


def _row(section: SectionGate, with_length: bool) -> tuple[str, ...]:
    low, _, median, _, high = section.quantiles
    length = "-" if section.n_section_tokens is None else f"{section.n_section_tokens:.1f}"
    return (
        _short(section.section),
        f"{section.n:,}",
        *(f"{value:.3f}" for value in (section.mean, section.deviation, low, median, high)),
        f"{section.n_words:.1f}",
        *((length,) if with_length else ()),
        f"{section.n_training_tokens:,}",
        "-" if section.topicality is None else f"{section.topicality:.2f}",
    )


def print_checks(checks: Sequence[Check]) -> None:
    """Print how the weight goes with what makes a section short or topical."""
    print(
        "\ndo short, topical sections get more weight? Spearman's correlation of the weight [95 %, bootstrap]"
    )
    rows = [("", "n", "rho", "holds")]
    among = ""
    for check in checks:
        if check.among != among:
            among = check.among
            rows.append((among, "", "", ""))
        against = check.against if check.given is None else f"{check.against}, {check.given} fixed"
        rows.append((f"  {against}", f"{check.n:,}", with_interval(check.rho), _verdict(check)))
    print_columns(rows)


def _verdict(check: Check) -> str:
    low, high = sorted(check.expected * bound for bound in (check.rho.low, check.rho.high))
    return "yes" if low > 0 else "no" if high < 0 else "unclear"


def print_examples(examples: Sequence[WeighedExample]) -> None:
    """Print the paper's table: what was meant, the few words around it, and the weight."""
    if not examples:
        return
    print("\nexamples, from the least weight to the most")
    for each in examples:
        gap = "" if each.after.startswith(tuple(",.;:)/")) else " "
        words = f"{each.before} [{each.short_form}]{gap}{each.after}".strip()
        meant = "" if each.long_form is None else f"  ({each.long_form})"
        print(
            f"  {each.weight:.2f}  {_short(each.section or 'no section')}: {_printable(words)}{_printable(meant)}"
        )


def _short(name: str) -> str:
    name = _printable(name)
    return name if len(name) <= _WIDEST else name[: _WIDEST - 1] + "…"


def _printable(text: str) -> str:
    """Without what would steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)
