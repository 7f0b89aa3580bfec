"""`lmcells inspect senses`: what a word is near to under different sections."""

import argparse
from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

from lmcells.analysis.cells import WordCells
from lmcells.analysis.senses import Movement, WordSenses, measure_movement, word_senses
from lmcells.cli.arguments import at_least
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

SUMMARY = "what a word is near to under different sections"
DESCRIPTION = """\
Hold a word's cell under each section against a list of words. The probabilities are a softmax of -KL(p(z | word,
section) || the other word's expected meaning) over the list; "x1.4" says that a word is 1.4 times as likely as it is
for the word's average meaning: that is where the section pulls it. Without --sections: those in which the word was seen
most. Without --words: frequent words that tell the sections apart."""
EXAMPLE = """\
examples:
  lmcells inspect senses history --sections "SOCIAL HISTORY" "FAMILY HISTORY" --words smoking mother
  lmcells inspect senses cold --output cold.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument("word", metavar="WORD", help="a word that the model knows")
    parser.add_argument("--sections", nargs="+", default=[], metavar="NAME", help="sections to look at")
    parser.add_argument("--words", nargs="+", default=[], metavar="WORD", help="words to hold it against")
    parser.add_argument(
        "--n-sections",
        type=at_least(1),
        default=6,
        metavar="N",
        help="sections to choose, if none are given (6)",
    )
    parser.add_argument(
        "--n-words", type=at_least(1), default=12, metavar="N", help="words to choose, if none are given (12)"
    )
    add_top(parser, what="nearest words for each section", default=5)
    add_min_count(parser, otherwise=COMMONEST)
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Compare the cells and print the table."""
    model = open_model(options)
    cells = WordCells(model)
    senses = word_senses(
        cells,
        options.word,
        sections=options.sections,
        words=options.words,
        min_count=options.min_count,
        n_sections=options.n_sections,
        n_words=options.n_words,
        n_neighbors=options.top,
    )

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_senses

        return draw_senses(senses)

    write_figure(options, draw)
    movement = measure_movement(cells)
    if options.json:
        print_json({"model": str(model.folder), **senses.to_dict(), "movement": movement.to_dict()})
    else:
        print_senses(senses)
        print_movement(movement)


def print_senses(senses: WordSenses) -> None:
    """Print each section with the nearest words, then the table, whose columns are the sections' letters."""
    print(f"{senses.word}, seen {senses.count:,} times")
    letters = [_letter(column) for column in range(len(senses.sections))]
    _print_sections(letters, senses)
    print()
    table = [
        (
            word,
            *(f"{each.probability:.0%} x{each.ratio:.1f}" for each in of_word[:-1]),
            f"{of_word[-1].probability:.0%}",
        )
        for word, *of_word in zip(
            senses.words,
            *(sense.likenesses for sense in (*senses.sections, senses.average)),
            strict=True,
        )
    ]
    print_columns([("", *letters, "average"), *table])


def print_movement(movement: Movement) -> None:
    """Say how much of what is seen is this word's, and how much the section does to any word."""
    print(
        f"\nIn this model two sections are {movement.between_sections:.2f} nats apart for a word, two words "
        f"{movement.between_words:.2f} under a section.\nOf the variance of the means {movement.of_words:.0%} is the "
        f"word's, {movement.of_sections:.0%} the section's (the same for all words), {movement.of_pairs:.0%} their "
        "combination's."
    )


def _print_sections(letters: Sequence[str], senses: WordSenses) -> None:
    """A section a line, and the average; nearest words stand last, since they may be long."""
    rows = [
        (
            letter,
            sense.section or "average",
            "-" if sense.count is None else f"{sense.count:,}",
            f"{sense.moved:.2f}",
            ", ".join(each.word for each in sense.neighbors),
        )
        for letter, sense in zip([*letters, ""], [*senses.sections, senses.average], strict=True)
    ]
    print_columns([("", "section", "seen", "moved", "nearest words"), *rows], left=(0, 1, 4))


def _letter(column: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    more, letter = divmod(column, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[letter]
