"""`lmcells info`: what a folder made by lmcells holds."""

import argparse
from pathlib import Path

import numpy as np

from lmcells.cli.rendering import print_json, print_table
from lmcells.corpus.corpus import Corpus

SUMMARY = "describe a corpus"
DESCRIPTION = "Describe a corpus: sizes, settings, how it was read, its most frequent words and sections."
EXAMPLE = "example:\n  lmcells info corpus --verify"

_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("path", type=Path, metavar="CORPUS", help="corpus folder")
    parser.add_argument("--verify", action="store_true", help="compare the checksum of every file")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")


def run(options: argparse.Namespace) -> None:
    """Print the description."""
    corpus = Corpus.open(options.path, verify=options.verify)
    if options.json:
        print_json(
            {
                "corpus": str(options.path),
                "fingerprint": corpus.manifest.fingerprint,
                **corpus.manifest.to_dict(),
            }
        )
    else:
        describe_corpus(corpus)


def describe_corpus(corpus: Corpus) -> None:
    """Print sizes, settings, the most frequent words, and the largest metadata of each kind."""
    manifest = corpus.manifest
    print_table(
        [
            ("fingerprint", manifest.fingerprint),
            ("written by", f"lmcells {manifest.written_by}"),
            *((name.removeprefix("n_"), count) for name, count in manifest.sizes.items()),
            (
                "tokens per segment",
                f"{manifest.sizes['n_tokens'] / max(1, manifest.sizes['n_segments']):.1f}",
            ),
        ],
        title=str(corpus.folder),
    )
    print_table([(name, str(value)) for name, value in manifest.settings.items()], title="settings")
    words = zip(corpus.words[:_SHOWN], corpus.word_counts[:_SHOWN].tolist(), strict=True)
    print_table(list(words), title="most frequent words")
    for kind in corpus.metadata_kinds:
        if kind != "document":
            print_table(
                _largest(corpus, kind), title=f"{kind}: {corpus.n_metadata(kind):,} values, by tokens"
            )


def _largest(corpus: Corpus, kind: str) -> list[tuple[str, int]]:
    segment_tokens = np.bincount(corpus.token_segment)
    tokens = np.bincount(
        corpus.segment_metadata(kind), weights=segment_tokens, minlength=corpus.n_metadata(kind)
    )
    names = corpus.metadata_names(kind)
    return [(names[index], int(tokens[index])) for index in np.argsort(-tokens, kind="stable")[:_SHOWN]]
