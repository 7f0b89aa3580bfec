"""`lmcells inspect neighbors`: the words nearest to a word, under a section."""

import argparse
from typing import TYPE_CHECKING

from lmcells.analysis.cells import WordCells
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.neighbors import AGAINST, MEASURES, NearestWords, nearest_words
from lmcells.cli.inspect_options import (
    COMMONEST,
    add_min_count,
    add_top,
    add_view_options,
    open_model,
    write_figure,
)
from lmcells.cli.terminal import print_columns, print_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "the words nearest to a word, under a section"
DESCRIPTION = f"""\
List the words nearest to a word's cell p(z | word, section). Without --section: to its expected meaning over the
sections that it was seen in; with --section "{NULL_SECTION}": to its cell with null metadata. The other words' cells
are taken under the same section, or (--against expected) are expected over their own sections, which also shows where
the section pulls the word."""
EXAMPLE = """\
examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect neighbors history --section "SOCIAL HISTORY" --against expected --output history.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument("word", metavar="WORD", help="a word that the model knows")
    parser.add_argument(
        "--section",
        metavar="NAME",
        help=f'the section it stands in, or "{NULL_SECTION}" (its average over sections)',
    )
    parser.add_argument(
        "--against",
        choices=AGAINST,
        default=AGAINST[0],
        help="the other words' cells: under the same section, or expected over their own sections (section)",
    )
    parser.add_argument(
        "--by",
        choices=MEASURES,
        default=MEASURES[0],
        help="KL divergence of the cells, or cosine of their means (divergence)",
    )
    add_min_count(parser, otherwise=COMMONEST)
    add_top(parser, what="words", default=10)
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Find the words and print them."""
    model = open_model(options)
    found = nearest_words(
        WordCells(model),
        options.word,
        options.section,
        against=options.against,
        measure=options.by,
        min_count=options.min_count,
        n=options.top,
    )

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_nearest_words

        return draw_nearest_words(found)

    write_figure(options, draw)
    if options.json:
        print_json({"model": str(model.folder), **found.to_dict()})
    else:
        print_nearest(found)


def print_nearest(found: NearestWords) -> None:
    """Print what is known of the cell, then a word a line."""
    if found.section is None:
        where = f"on average, seen {found.count:,} times"
    else:
        seen = "" if found.count_in_section is None else f" ({found.count_in_section:,} of them here)"
        where = f"under {found.section}, seen {found.count:,} times{seen}"
    moved = "" if found.section is None else f"; {found.moved:.2f} nats from its average meaning"
    print(f"{found.word} {where}; variance {found.variance:.2f}{moved}")
    rows = [
        (each.word, f"{each.divergence:.2f}", f"{each.cosine:.2f}", f"{each.count:,}")
        for each in found.neighbors
    ]
    print_columns([("nearest", "KL", "cosine", "seen"), *rows])
