"""What the views of `lmcells inspect` have in common: their model, how much is listed, and where a figure goes."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lmcells.cli.arguments import add_overwrite, at_least
from lmcells.errors import InputError, MissingExtra
from lmcells.evaluation.intervals import Interval
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_FORMATS = (".svg", ".pdf", ".png")
COMMONEST = "the 10,000 commonest"  # as `WordCells.frequent` chooses, unless told otherwise


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """--model, --output and --json."""
    add_model_options(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"also write a figure ({', '.join(FIGURE_FORMATS)})"
    )
    add_overwrite(parser, replaces="a figure")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model and --json."""
    parser.add_argument(
        "--model", default=DEFAULT, metavar="MODEL", help="model folder, or default (the shipped model)"
    )
    parser.add_argument("--json", action="store_true", help="print the data as JSON, not as a table")


def add_top(parser: argparse.ArgumentParser, *, what: str, default: int, least: int = 1) -> None:
    """--top: how much is listed."""
    parser.add_argument(
        "--top", type=at_least(least), default=default, metavar="N", help=f"list N {what} ({default})"
    )


def add_min_count(
    parser: argparse.ArgumentParser, *, default: int | None = None, otherwise: str = ""
) -> None:
    """--min-count: which words are looked at."""
    parser.add_argument(
        "--min-count",
        type=at_least(1),
        default=default,
        metavar="N",
        help=f"only words seen N times or more in training ({otherwise or default})",
    )


def open_model(options: argparse.Namespace) -> PretrainedModel:
    """The model of --model; a figure that could not be written is refused first."""
    if options.output is not None:
        ending = options.output.suffix
        if ending.lower() not in FIGURE_FORMATS:
            found = f"found the ending {ending!r}" if ending else "found no ending"
            raise InputError(f"--output {options.output}: {found}, allowed: {', '.join(FIGURE_FORMATS)}.")
    return PretrainedModel.from_pretrained(model_folder(options.model))


def with_interval(rho: Interval) -> str:
    """An estimate and its interval; zero has no sign."""
    estimate, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (rho.estimate, rho.low, rho.high))
    return f"{estimate} [{low}, {high}]"


def write_figure(options: argparse.Namespace, draw: Callable[[], "Figure"]) -> None:
    """Draw and write the figure, where --output asks for one."""
    if options.output is None:
        return
    try:
        from lmcells.figure_style import save_as
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingExtra("matplotlib", extra="report", purpose="Drawing a figure") from None
    try:
        save_as(draw(), options.output)
    except OSError as error:
        raise InputError(
            f"--output {options.output} cannot be written: {error.strerror or error}."
        ) from error
