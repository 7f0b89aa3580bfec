"""What the views of `lmcells inspect` have in common: the model they look into, and where a figure goes."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lmcells.cli.arguments import add_json
from lmcells.errors import InputError, MissingExtra
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.shipped import DEFAULT, model_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_FORMATS = (".svg", ".pdf", ".png")


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """--model, --output and --json."""
    parser.add_argument(
        "--model", default=DEFAULT, metavar="MODEL", help="model folder, or default (shipped)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"write the figure ({', '.join(FIGURE_FORMATS)})"
    )
    add_json(parser)


def open_model(options: argparse.Namespace) -> PretrainedModel:
    """The model of --model; a figure that could not be written is refused first."""
    if options.output is not None and options.output.suffix.lower() not in FIGURE_FORMATS:
        raise InputError(
            f"--output {options.output}: found the ending {options.output.suffix!r}, "
            f"allowed: {', '.join(FIGURE_FORMATS)}."
        )
    return PretrainedModel.from_pretrained(model_folder(options.model))


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
