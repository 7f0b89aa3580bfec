"""`lmcells inspect interpolate`: what a short form means as its section is given more and more weight."""

import argparse
from typing import TYPE_CHECKING

import numpy as np

from lmcells.analysis.interpolation import STEPS, Interpolation, calibration_of, interpolate
from lmcells.cli.arguments import at_least
from lmcells.cli.inspect_options import add_view_options, open_model, write_figure
from lmcells.cli.inspect_ranking import add_ranking_options, open_ranker
from lmcells.cli.terminal import print_columns, print_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "move the gate by hand between a short form's words and its section"
DESCRIPTION = """\
Give the section of a short form more and more weight, from 0 (the words around it) to 1 (the section), and follow the
probability of every long form: the paper's figure of MG. Without --text there are no words around it. A ranking by gaps
then begins with an empty gap, one by divergence with the short form itself beside no word."""
EXAMPLE = """\
examples:
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg
  lmcells inspect interpolate MG --section "DISCHARGE MEDICATIONS" --section IMAGING --section "PAST MEDICAL HISTORY"
  lmcells inspect interpolate RA --section "PAST MEDICAL HISTORY" --text "methotrexate for RA since 2012"
  lmcells inspect interpolate MG --section MEDICATIONS --ranking divergence --null-metadata
    (the paper's formula: long forms under no section)"""

_N_COLUMNS = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument("short_form", metavar="SHORT_FORM", help="a short form of the inventory")
    parser.add_argument(
        "--section",
        required=True,
        action="append",
        metavar="NAME",
        help="the section; may be given several times",
    )
    parser.add_argument(
        "--text", metavar="TEXT", help="a text in which the short form stands (none: no words around it)"
    )
    parser.add_argument(
        "--steps",
        type=at_least(2),
        default=STEPS,
        metavar="N",
        help=f"how many weights from 0 to 1 ({STEPS})",
    )
    parser.add_argument(
        "--null-metadata",
        action="store_true",
        help="with --ranking divergence: long forms under no section, not under all of their own",
    )
    add_ranking_options(parser)
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Interpolate under each section and show the paths."""
    model = open_model(options)
    ranker = open_ranker(options, model, null_metadata=options.null_metadata)
    calibration = calibration_of(model, ranking=options.ranking)
    paths = [
        interpolate(
            ranker,
            options.short_form,
            section=section,
            text=options.text,
            steps=options.steps,
            calibration=calibration,
        )
        for section in options.section
    ]
    write_figure(options, lambda: _draw(paths))
    if options.json:
        print_json({"model": str(model.folder), "paths": [path.to_dict() for path in paths]})
    else:
        for path in paths:
            print_path(path)


def print_path(path: Interpolation) -> None:
    """Print the probabilities at a few of the steps, at the learnt weight, and under no section."""
    n_columns = min(_N_COLUMNS, len(path.weights))
    shown = np.linspace(0, len(path.weights) - 1, n_columns).round().astype(int).tolist()
    around = f"{path.n_words} words around it" if path.n_words else "no words around it"
    print(
        f"{path.short_form} in {path.section}, {around}; the gate gives the section {path.learnt_weight:.2f}"
    )
    header = (
        "weight of the section",
        *(f"{path.weights[step]:.2f}" for step in shown),
        "learnt",
        "no section",
    )
    rows = [
        (
            each.long_form,
            *(f"{each.probabilities[step]:.3f}" for step in shown),
            f"{each.learnt:.3f}",
            f"{each.without_section:.3f}",
        )
        for each in path.long_forms
    ]
    print_columns([header, *rows])


def _draw(paths: list[Interpolation]) -> "Figure":
    from lmcells.analysis.figures import draw_interpolation

    return draw_interpolation(paths)
