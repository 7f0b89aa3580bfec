"""`lmcells info`: what a folder made by lmcells holds."""

import argparse
from pathlib import Path

import numpy as np

from lmcells.cli.info_language_model import describe_language_model, summarize_language_model
from lmcells.cli.terminal import flat_rows, print_json, print_table
from lmcells.corpus import layout as corpus_layout
from lmcells.corpus.corpus import Corpus
from lmcells.errors import InputError
from lmcells.language_model.folder import is_language_model, read_folder
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained import folder as model_layout
from lmcells.pretrained.folder import model_folder

SUMMARY = "describe a corpus or a model"
DESCRIPTION = """Describe a folder made by lmcells: a corpus (sizes, settings, how it was read, its most frequent
words and sections) or a model (kind, sizes, settings, what it was trained on and how), elmo included."""
EXAMPLE = "example:\n  lmcells info corpus --verify\n  lmcells info model --json\n  lmcells info default"

_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "path", type=_folder, metavar="FOLDER", help="corpus or model folder; default: the shipped model"
    )
    parser.add_argument("--verify", action="store_true", help="compare the checksum of every file")
    parser.add_argument(
        "--json", action="store_true", help="print the corpus' manifest or the model's config as JSON"
    )


def _folder(name: str) -> Path:
    """What is there under a name goes before the shipped model."""
    return Path(name) if Path(name).exists() else model_folder(name)


def run(options: argparse.Namespace) -> None:
    """Print the description."""
    if is_language_model(options.path):
        saved = read_folder(options.path)
        if options.json:
            print_json(summarize_language_model(saved))
        else:
            describe_language_model(saved)
        return
    if _is_model(options.path):
        model = PretrainedModel.from_pretrained(options.path, verify=options.verify)
        if options.json:
            print_json(
                {
                    "model": str(options.path),
                    "n_parameters": _n_parameters(model),
                    "config": model.config.to_dict(),
                }
            )
        else:
            describe_model(model)
        return
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


def _is_model(folder: Path) -> bool:
    """Tell a model from a corpus by the file that vouches for it; a folder with neither is refused."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}. Give a corpus or a model."
        )
    if (folder / corpus_layout.MANIFEST).is_file():
        return False
    if (folder / model_layout.CONFIG).is_file():
        return True
    raise InputError(
        f"{folder} is neither a corpus (no {corpus_layout.MANIFEST}) nor a model (no {model_layout.CONFIG}). "
        "Make one with: lmcells prepare, or lmcells train"
    )


def describe_model(model: PretrainedModel) -> None:
    """Print kind, sizes, settings, and what the model was trained on and how."""
    config = model.config
    print_table(
        [
            ("kind", config.kind),
            ("written by", f"lmcells {config.written_by}"),
            ("words", len(model.words)),
            (f"metadata ({config.metadata_kind})", len(model.sections)),
            ("parameters", _n_parameters(model)),
            ("bytes", sum(file["bytes"] for file in config.files.values())),
            ("stored as", config.dtype),
            ("tokenizer rules", config.tokenizer),
            ("seed", str(config.seed)),
        ],
        title=str(model.folder),
    )
    for title in ("model", "training", "corpus"):
        print_table(flat_rows(getattr(config, title)), title="settings" if title == "model" else title)
    words = zip(model.words[:_SHOWN], model.word_counts[:_SHOWN].tolist(), strict=True)
    print_table(list(words), title="most frequent words")


def _n_parameters(model: PretrainedModel) -> int:
    return sum(array.size for array in model.arrays.values())


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
