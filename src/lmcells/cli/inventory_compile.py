"""`lmcells inventory compile`: a model that knows an inventory's long forms by their occurrences in a corpus."""

import argparse
from pathlib import Path

from lmcells.cli.arguments import add_json
from lmcells.cli.terminal import ProgressLine, print_json, print_table
from lmcells.corpus import Corpus
from lmcells.errors import InputError, MissingExtra
from lmcells.expansion.inventory import load_inventory
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

SUMMARY = "a copy of a model that knows an inventory's long forms"
DESCRIPTION = """\
Read where the long forms of an inventory stand in a corpus, and write a copy of a model that knows them by these
places. The corpus may be any that `lmcells prepare` made, with words and section names of its own."""
EXAMPLE = """\
example:
  lmcells inventory compile senses.csv --corpus corpus --model default --output model-with-senses"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("inventory", type=Path, metavar="INVENTORY", help="senses, JSON or CSV")
    parser.add_argument("--corpus", required=True, type=Path, metavar="CORPUS", help="corpus folder")
    parser.add_argument("--model", required=True, metavar="MODEL", help="model folder, or default (shipped)")
    parser.add_argument("--output", required=True, type=Path, metavar="NEW_MODEL", help="folder to write")
    parser.add_argument(
        "--min-count", type=int, metavar="N", help="how often a long form must occur in the corpus (4)"
    )
    parser.add_argument("--device", default="auto", metavar="auto|cpu|cuda", help="where to compute (auto)")
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Compile the inventory and print what became of it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", extra="train", purpose="Compiling an inventory") from None
    from lmcells.expansion.inventory_compilation import compile_inventory
    from lmcells.training.distributed import choose_device
    from lmcells.training.prototypes import MIN_COUNT

    if options.output.exists():
        raise InputError(f"--output {options.output} exists already. Choose another folder.")
    min_count = MIN_COUNT if options.min_count is None else options.min_count
    if min_count < 1:
        raise InputError(f"--min-count: found {min_count}, allowed: 1 or more.")
    device = choose_device(options.device)
    inventory = load_inventory(options.inventory)
    corpus = Corpus.open(options.corpus)
    model = PretrainedModel.from_pretrained(model_folder(options.model), verify=True)
    with ProgressLine() as line:
        line.update("reading the places of long forms")
        try:
            result = compile_inventory(
                model,
                inventory,
                corpus,
                output=options.output,
                name=options.inventory.name,
                device=device,
                min_count=min_count,
            )
        except OSError as error:
            raise InputError(
                f"--output {options.output} cannot be written: {error.strerror or error}."
            ) from error
    if options.json:
        print_json({"model": str(options.output), **result.to_dict()})
    else:
        rows = [
            ("senses", result.n_senses),
            ("senses that the corpus has", result.n_senses_found),
            ("phrases added", result.n_added),
            ("phrases replaced", result.n_replaced),
            ("phrases kept, known from more places", result.n_kept),
        ]
        print_table(rows, title=str(options.output))
