"""Shared by the views of `lmcells inspect`: options, opening models, and showing a result.

A view is a generator: it looks at a model, yields its data and a figure or None, and then prints the table.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from lmcells.analysis.interpolation import section_ranker
from lmcells.cli.arguments import Command, Options, at_least
from lmcells.cli.terminal import print_json
from lmcells.errors import InputError, MissingExtra
from lmcells.expansion import SenseInventory, load_inventory
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.ranking import PosteriorRanker, Ranking
from lmcells.files import explain_unwritable
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

Seen = Iterator[tuple[Mapping[str, Any], Any]]

_FIGURES = (".svg", ".pdf", ".png")


def add_min_count(add: Options) -> None:
    text = "only words seen N times or more in training (the 10,000 most frequent)"
    add("--min-count N", text, type=at_least(1))


def add_inventory(add: Options) -> None:
    add("--inventory FILE", "short forms and their long forms, JSON or CSV (the shipped ones)", type=Path)


def add_ranker(add: Options) -> None:
    add_inventory(add)
    ways = "masked-span: by what fits where the short form is masked; divergence: the paper's; "
    ways += "auto: masked-span if the model supports it"
    add("--ranking", ways, choices=get_args(Ranking), default="auto")


def add_model(add: Options) -> None:
    add("--model MODEL", "model folder, or default (the shipped model)", default=DEFAULT)
    add("--json", "print the data as JSON, not as a table")


def view(
    help_: str,
    add_options: Callable[[Options], None],
    look: Callable[[argparse.Namespace, PretrainedModel], Seen],
) -> Command:
    """A command that looks at a model, writes the figure of --output, and prints the data as JSON or as a table."""

    def add_all(add: Options) -> None:
        add_options(add)
        add_model(add)
        add("--output FILE", f"also write a figure ({', '.join(_FIGURES)})", type=Path)
        add.overwrite(replaces="a figure")

    def run(options: argparse.Namespace) -> None:
        output = options.output
        if output is not None and output.suffix.lower() not in _FIGURES:
            found = f"found the extension {output.suffix!r}" if output.suffix else "found no extension"
            raise InputError(f"--output {output}: {found}, allowed: {', '.join(_FIGURES)}.")
        model = PretrainedModel.from_pretrained(model_folder(options.model))
        view = look(options, model)
        data, figure = next(view)
        if figure is not None:
            from lmcells.figure_style import save_as

            with explain_unwritable(f"--output {output}"):
                save_as(figure, output)
        if options.json:
            print_json({"model": str(model.folder), **data})
        else:
            next(view, None)  # prints the table

    return Command(help_, add_all, run)


def open_inventory(options: argparse.Namespace) -> SenseInventory:
    return load_inventory(options.inventory) if options.inventory else shipped_inventory()


def open_ranker(
    options: argparse.Namespace, model: PretrainedModel, *, null_metadata: bool = False
) -> PosteriorRanker:
    inventory = open_inventory(options)
    return section_ranker(model, inventory, ranking=options.ranking, null_metadata=null_metadata)


def draw(options: argparse.Namespace, name: str, *arguments: Any, **more: Any) -> Any:
    """Return the figure that a function of `analysis` draws ("figures.draw_gate"), or None without --output."""
    if options.output is None:
        return None
    module, _, function = name.partition(".")
    try:
        return getattr(import_module(f"lmcells.analysis.{module}"), function)(*arguments, **more)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingExtra("matplotlib", extra="report", purpose="Drawing a figure") from None
