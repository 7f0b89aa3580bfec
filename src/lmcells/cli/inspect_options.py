"""What the views of `lmcells inspect` share: their options, how they open models, and how they show a result."""

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from lmcells.analysis.interpolation import section_ranker
from lmcells.cli.arguments import add_overwrite, at_least
from lmcells.cli.terminal import print_json
from lmcells.errors import InputError, MissingExtra
from lmcells.evaluation.intervals import Interval
from lmcells.expansion import SenseInventory, load_inventory
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.ranking import PosteriorRanker, Ranking
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

FIGURE_FORMATS = (".svg", ".pdf", ".png")
MOST_FREQUENT = "the 10,000 most frequent"  # what `WordCells.frequent` chooses by default


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model and --json."""
    parser.add_argument(
        "--model", default=DEFAULT, metavar="MODEL", help="model folder, or default (the shipped model)"
    )
    parser.add_argument("--json", action="store_true", help="print the data as JSON, not as a table")


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """--model, --output, --overwrite and --json."""
    add_model_options(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"also write a figure ({', '.join(FIGURE_FORMATS)})"
    )
    add_overwrite(parser, replaces="a figure")


def add_number(
    parser: argparse._ActionsContainer,
    name: str,
    text: str,
    *,
    default: int | None,
    least: int = 1,
    otherwise: str = "",
) -> None:
    """An option that is a whole number; its help ends with the default, or with what happens otherwise."""
    shown = otherwise or f"{default:,}"
    parser.add_argument(name, type=at_least(least), default=default, metavar="N", help=f"{text} ({shown})")


def add_min_count(
    parser: argparse.ArgumentParser, *, default: int | None = None, otherwise: str = MOST_FREQUENT
) -> None:
    """--min-count: which words are looked at."""
    text = "only words seen N times or more in training"
    add_number(parser, "--min-count", text, default=default, otherwise=otherwise)


def add_inventory(parser: argparse.ArgumentParser) -> None:
    """--inventory."""
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="short forms and their long forms, JSON or CSV (the shipped ones)",
    )


def add_ranking_options(parser: argparse.ArgumentParser) -> None:
    """--inventory and --ranking."""
    add_inventory(parser)
    parser.add_argument(
        "--ranking",
        choices=get_args(Ranking),
        default="auto",
        help="masked-span: by what fits where the short form is masked; divergence: the paper's; "
        "auto: masked-span if the model supports it",
    )


def open_model(options: argparse.Namespace) -> PretrainedModel:
    """Open the model of --model; a figure that could not be written is refused first."""
    if options.output is not None and options.output.suffix.lower() not in FIGURE_FORMATS:
        extension = options.output.suffix
        found = f"found the extension {extension!r}" if extension else "found no extension"
        raise InputError(f"--output {options.output}: {found}, allowed: {', '.join(FIGURE_FORMATS)}.")
    return PretrainedModel.from_pretrained(model_folder(options.model))


def open_inventory(options: argparse.Namespace) -> SenseInventory:
    """Open the inventory of --inventory, or the shipped one."""
    return load_inventory(options.inventory) if options.inventory else shipped_inventory()


def open_ranker(
    options: argparse.Namespace, model: PretrainedModel, *, null_metadata: bool = False
) -> PosteriorRanker:
    """Return the ranker of --inventory and --ranking."""
    inventory = open_inventory(options)
    return section_ranker(model, inventory, ranking=options.ranking, null_metadata=null_metadata)


def with_interval(rho: Interval) -> str:
    """An estimate and its interval; zero has no sign."""
    estimate, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (rho.estimate, rho.low, rho.high))
    return f"{estimate} [{low}, {high}]"


def figures(module: str = "figures") -> Any:
    """Import a module of figures, which only drawing needs."""
    try:
        return import_module(f"lmcells.analysis.{module}")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingExtra("matplotlib", extra="report", purpose="Drawing a figure") from None


def show(
    options: argparse.Namespace,
    model: PretrainedModel,
    data: Mapping[str, Any],
    draw: Callable[[], Any],
    print_view: Callable[[], None],
) -> None:
    """Write the figure that `draw` returns if --output asks for one, then print the data as JSON or as a table."""
    if options.output is not None:
        figure = draw()
        from lmcells.figure_style import save_as

        try:
            save_as(figure, options.output)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"--output {options.output} cannot be written: {reason}.") from error
    if options.json:
        print_json({"model": str(model.folder), **data})
    else:
        print_view()
