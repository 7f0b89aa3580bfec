"""`lmcells inspect vectors`: expected meanings as a file that gensim and word2vec's other readers know."""

import argparse
from pathlib import Path

from lmcells.analysis.vectors import FORMATS, require_format, section_vectors, word_vectors, write_vectors
from lmcells.cli.arguments import add_overwrite
from lmcells.cli.inspect_options import add_model_options
from lmcells.cli.terminal import print_json, print_table
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

SUMMARY = "write the expected meaning of every word or section as vectors (word2vec, gensim)"
DESCRIPTION = """\
Write the expected meaning of every word, over the sections that it stands in, or of every section, over its words, in
the text (.txt, .vec) or binary (.bin) format of word2vec. Spaces of a name become underscores: PAST_MEDICAL_HISTORY."""
EXAMPLE = """\
examples:
  lmcells inspect vectors --output words.bin
  lmcells inspect vectors --what sections --output sections.txt
then, in Python:
  KeyedVectors.load_word2vec_format("words.bin", binary=True).most_similar("fever")"""

_VECTORS = {"words": word_vectors, "sections": section_vectors}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        metavar="FILE",
        help=f"write the vectors ({', '.join(FORMATS)})",
    )
    add_overwrite(parser, replaces="a file")
    parser.add_argument("--what", choices=_VECTORS, default="words", help="whose vectors (words)")
    add_model_options(parser)


def run(options: argparse.Namespace) -> None:
    """Write the vectors and say how many there are."""
    is_binary = require_format(options.output)
    model = PretrainedModel.from_pretrained(model_folder(options.model))
    vectors = _VECTORS[options.what](model)
    write_vectors(options.output, vectors)
    summary = {
        "output": str(options.output),
        "format": "binary" if is_binary else "text",
        options.what: len(vectors.names),
        "dimensions": vectors.dim,
        "left_out": vectors.n_left_out,
    }
    if options.json:
        print_json(summary)
    else:
        rows = [(name, value) for name, value in summary.items() if name not in {"output", "left_out"}]
        if vectors.n_left_out:
            rows.append(("left out, no word counted", vectors.n_left_out))
        print_table(rows, title=str(options.output))
