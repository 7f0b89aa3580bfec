"""What the views that ask for a ranking have in common: the senses, and how a model ranks them."""

import argparse
from pathlib import Path
from typing import get_args

from lmcells.analysis.interpolation import section_ranker
from lmcells.expansion import SenseInventory, load_inventory
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.ranking import PosteriorRanker, Ranking
from lmcells.pretrained import PretrainedModel


def add_inventory(parser: argparse.ArgumentParser) -> None:
    """--inventory."""
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="short forms and their long forms, JSON or CSV (the shipped ones)",
    )


def open_inventory(options: argparse.Namespace) -> SenseInventory:
    """The senses of --inventory, or the shipped ones."""
    return load_inventory(options.inventory) if options.inventory else shipped_inventory()


def add_ranking_options(parser: argparse.ArgumentParser) -> None:
    """--inventory and --ranking."""
    add_inventory(parser)
    parser.add_argument(
        "--ranking",
        choices=get_args(Ranking),
        default="auto",
        help="gap: by what fits in the short form's place; divergence: the paper's; auto: gap where the model can",
    )


def open_ranker(
    options: argparse.Namespace, model: PretrainedModel, *, null_metadata: bool = False
) -> PosteriorRanker:
    """The ranker of --inventory and --ranking."""
    return section_ranker(
        model, open_inventory(options), ranking=options.ranking, null_metadata=null_metadata
    )
