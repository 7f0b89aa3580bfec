"""`lmcells unpack`: the file written by `lmcells pack` -> the corpus it holds."""

import argparse
from pathlib import Path

from lmcells.cli.info import describe_corpus
from lmcells.cli.terminal import print_json
from lmcells.corpus.packing import unpack_corpus

SUMMARY = "write the corpus folder that a packed file holds"
DESCRIPTION = "Write the corpus folder that was packed. Every file is checked; a damaged one is refused."
EXAMPLE = "example:\n  lmcells unpack corpus.packed --output corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("packed", type=Path, metavar="FILE", help="file written by `lmcells pack`")
    parser.add_argument("--output", required=True, type=Path, metavar="CORPUS", help="folder to write")
    parser.add_argument("--json", action="store_true", help="describe the corpus as JSON")


def run(options: argparse.Namespace) -> None:
    """Unpack the corpus and describe it."""
    corpus = unpack_corpus(options.packed, options.output)
    if options.json:
        print_json({"corpus": str(corpus.folder), **corpus.manifest.to_dict()})
    else:
        describe_corpus(corpus)
