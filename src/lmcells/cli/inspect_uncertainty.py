"""`lmcells inspect uncertainty`: words by their prior variance, and what it goes with."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmcells.analysis.statistics import N_RESAMPLES
from lmcells.analysis.uncertainty import MIN_COUNT, VARIANCES, Association, WordUncertainty, word_variances
from lmcells.cli.arguments import at_least
from lmcells.cli.inspect_options import (
    add_min_count,
    add_top,
    add_view_options,
    open_model,
    with_interval,
    write_figure,
)
from lmcells.cli.inspect_ranking import add_inventory, open_inventory
from lmcells.cli.terminal import print_columns, print_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "words by prior variance, against frequency and number of senses"
DESCRIPTION = """\
How sure the model is of its words before it reads a context: the variance of their cells within a section, and between
their sections. Beside the surest and least sure words, the rank correlations (Spearman; 95 % by bootstrap over words)
with frequency, the effective number of sections, and the number of long forms of a short form in an inventory."""
EXAMPLE = """\
examples:
  lmcells inspect uncertainty
  lmcells inspect uncertainty history cold ms --by between --output uncertainty.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="words to show as well, marked in the figure"
    )
    parser.add_argument(
        "--by",
        choices=VARIANCES,
        default="within",
        help="rank words by the variance within their cells, between their sections, or in total (within)",
    )
    add_top(parser, what="words from each end", default=8, least=0)
    add_min_count(parser, default=MIN_COUNT)
    add_inventory(parser)
    parser.add_argument(
        "--resamples",
        type=at_least(20),
        default=N_RESAMPLES,
        metavar="N",
        help=f"resamples of the bootstrap ({N_RESAMPLES:,})",
    )
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help="seed of the bootstrap (0)")
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Measure the words and print what was found."""
    model = open_model(options)
    variances = word_variances(model, inventory=open_inventory(options), min_count=options.min_count)
    named = variances.named(model, options.words)
    associations = variances.associations(n_resamples=options.resamples, seed=options.seed)

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_uncertainty

        return draw_uncertainty(variances, associations, named=named)

    write_figure(options, draw)
    ends = {
        "most": variances.ranked(options.by, most=options.top),
        "least": variances.ranked(options.by, most=options.top, largest=False),
    }
    if options.json:
        print_json(
            {
                "model": str(model.folder),
                "by": options.by,
                "n_words": len(variances.words),
                "words": [word.to_dict() for word in named],
                **{end: [word.to_dict() for word in words] for end, words in ends.items()},
                "associations": [association.to_dict() for association in associations],
            }
        )
        return
    print(f"{len(variances.words):,} words seen {options.min_count:,} times or more")
    print_columns(
        [
            ("", "count", "sections", "senses", "within", "percentile", "between", "total"),
            *_rows("asked for:", named),
            *_rows(f"largest variance {options.by}:", ends["most"]),
            *_rows(f"smallest variance {options.by}:", ends["least"]),
        ]
    )
    _print_associations(associations)


def _rows(title: str, words: Sequence[WordUncertainty]) -> list[tuple[str, ...]]:
    if not words:
        return []
    rows = [
        (
            f"  {word.word}",
            f"{word.count:,}",
            f"{word.n_sections:.1f}",
            f"{word.n_senses}" if word.n_senses else "-",
            f"{word.within:.4f}",
            f"{100 * word.share_below:.0f}",
            f"{word.between:.4f}",
            f"{word.total:.4f}",
        )
        for word in words
    ]
    return [(title, *[""] * (len(rows[0]) - 1)), *rows]


def _print_associations(associations: Sequence[Association]) -> None:
    print("\nSpearman's rank correlation [95 %]")
    rows: dict[tuple[str, str | None, int], dict[str, str]] = {}
    for each in associations:
        row = rows.setdefault((each.against, each.given, each.n_words), {})
        row[each.variance] = with_interval(each.rho)
    print_columns(
        [
            ("", "words", *VARIANCES),
            *(
                (
                    against + (f", {given} fixed" if given else ""),
                    f"{n:,}",
                    *(cells.get(variance, "-") for variance in VARIANCES),
                )
                for (against, given, n), cells in rows.items()
            ),
        ]
    )
