"""`lmcells pack`: a corpus -> one compressed file."""

import argparse
from pathlib import Path

from lmcells.cli.terminal import print_json, print_table
from lmcells.corpus.corpus import Corpus
from lmcells.corpus.packing import pack_corpus

SUMMARY = "write a corpus to one compressed file"
DESCRIPTION = "Write a corpus to one compressed file, to take it to a machine that has only torch and numpy."
EXAMPLE = "example:\n  lmcells pack corpus --output corpus.packed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="corpus folder")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(options: argparse.Namespace) -> None:
    """Pack the corpus and print the size of the file."""
    corpus = Corpus.open(options.corpus, verify=True)
    n_bytes = pack_corpus(corpus, options.output)
    if options.json:
        print_json({"packed": str(options.output), "bytes": n_bytes})
    else:
        print_table(
            [("tokens", corpus.manifest.sizes["n_tokens"]), ("bytes", n_bytes)], title=str(options.output)
        )
