"""`lmcells info`, `pack` and `unpack`: describe a folder made by lmcells, and pack a corpus into one file."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.cli.arguments import Command, Options
from lmcells.cli.terminal import Table, flat_rows, print_result
from lmcells.corpus import Corpus
from lmcells.corpus.corpus import FORMAT as CORPUS
from lmcells.corpus.corpus import MANIFEST, TOKEN_SEGMENT, require_ids
from lmcells.corpus.packing import pack_corpus, unpack_corpus
from lmcells.errors import InputError
from lmcells.files import explain_unwritable, read_tensors
from lmcells.language_model.folder import EMBEDDINGS, is_language_model, read_folder
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import CONFIG, TOKENIZER, WEIGHTS, model_folder

_SHOWN = 10  # most frequent words, largest sections
_ENDINGS = {
    "flat": "its held-out loss was flat",
    "epochs": "all epochs were done; its held-out loss could still fall",
}


def _info(options: argparse.Namespace) -> None:
    path = options.path if options.path.exists() else model_folder(str(options.path))
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise InputError(f"{path} {found}. Give a corpus or a model.")
    if (path / MANIFEST).is_file():
        corpus = Corpus.open(path, verify=options.verify)
        named = {"corpus": str(path), "fingerprint": corpus.manifest.fingerprint}
        print_result(options, named | corpus.manifest.to_dict(), _corpus_tables(corpus))
    elif is_language_model(path):
        print_result(options, *_describe_language_model(path))
    elif (path / CONFIG).is_file():
        print_result(options, *_describe_model(PretrainedModel.from_pretrained(path, verify=options.verify)))
    else:
        raise InputError(
            f"{path} is neither a corpus (no {MANIFEST}) nor a model (no {CONFIG}). "
            f"Make one with: {CORPUS.made_with}, or lmcells train"
        )


def _corpus_tables(corpus: Corpus) -> Iterator[Table]:
    manifest, sizes = corpus.manifest, corpus.manifest.sizes
    rows: list[tuple[str, Any]] = [
        ("fingerprint", manifest.fingerprint),
        ("written by", f"lmcells {manifest.written_by}"),
        *((name.removeprefix("n_"), count) for name, count in sizes.items()),
        ("tokens per segment", f"{sizes['n_tokens'] / max(1, sizes['n_segments']):.1f}"),
    ]
    yield str(corpus.folder), rows
    yield "settings", [(name, str(value)) for name, value in manifest.settings.items()]
    yield _most_frequent(corpus.words, corpus.word_counts)
    require_ids(corpus.token_segment, sizes["n_segments"], source=corpus.folder / TOKEN_SEGMENT)
    segment_tokens = np.bincount(corpus.token_segment, minlength=sizes["n_segments"])
    for kind in corpus.metadata_kinds:
        if kind != "document":
            n_values, names = corpus.n_metadata(kind), corpus.metadata_names(kind)
            tokens = np.bincount(corpus.segment_metadata(kind), weights=segment_tokens, minlength=n_values)
            largest = np.argsort(-tokens, kind="stable")[:_SHOWN]
            counts = [(names[index], int(tokens[index])) for index in largest]
            yield f"{kind}: {n_values:,} values, by tokens", counts


def _describe_model(model: PretrainedModel) -> tuple[dict[str, Any], list[Table]]:
    config, n_parameters = model.config, sum(array.size for array in model.arrays.values())
    rows: list[tuple[str, Any]] = [
        ("kind", config.kind),
        ("written by", f"lmcells {config.written_by}"),
        ("words", len(model.words)),
        (f"metadata ({config.metadata_kind})", len(model.sections)),
        ("parameters", n_parameters),
        ("bytes", sum(file["bytes"] for file in config.files.values())),
        ("stored as", config.dtype),
        ("tokenizer rules", config.tokenizer),
        ("seed", str(config.seed)),
    ]
    made_with = {"settings": config.model, "training": config.training, "corpus": config.corpus}
    tables: list[Table] = [
        (str(model.folder), rows),
        *((name, flat_rows(each)) for name, each in made_with.items()),
    ]
    data = {"model": str(model.folder), "n_parameters": n_parameters, "config": config.to_dict()}
    return data, [*tables, _most_frequent(model.words, model.word_counts)]


def _describe_language_model(folder: Path) -> tuple[dict[str, Any], list[Table]]:
    config, saved = read_folder(folder)
    arrays, training = read_tensors(folder / WEIGHTS), saved["training"]
    n_parameters = sum(array.size for array in arrays.values())
    n_others = n_parameters - sum(array.size for name, array in arrays.items() if name in EMBEDDINGS)
    rows: list[tuple[str, Any]] = [
        ("kind", f"elmo ({config.kind})"),
        ("written by", f"lmcells {saved['written_by']}"),
        ("words", config.n_words),
        ("parameters", n_parameters),
        ("parameters without embeddings", n_others),
        ("bytes", sum(file["bytes"] for file in saved["files"].values())),
        ("tokenizer rules", TOKENIZER),
        ("seed", str(training.get("seed"))),
        ("training ended when", _ENDINGS.get(str(training.get("ended_by")), "not recorded")),
    ]
    made_with = {"settings": config.to_dict(), "training": training, "corpus": saved["corpus"]}
    settings = {name: saved[name] for name in ("corpus", "training", "files", "written_by")}
    counts = {"n_parameters": n_parameters, "n_parameters_without_embeddings": n_others}
    data = {"model": str(folder), "kind": "elmo", **counts}
    data["config"] = {"language_model": config.to_dict(), **settings}
    return data, [(str(folder), rows), *((name, flat_rows(each)) for name, each in made_with.items())]


def _most_frequent(words: list[str], counts: npt.NDArray[np.integer]) -> Table:
    return "most frequent words", list(zip(words[:_SHOWN], counts[:_SHOWN].tolist(), strict=True))


def _pack(options: argparse.Namespace) -> None:
    corpus = Corpus.open(options.corpus, verify=True)
    with explain_unwritable(options.output):
        n_bytes = pack_corpus(corpus, options.output)
    rows = [("tokens", corpus.manifest.sizes["n_tokens"]), ("bytes", n_bytes)]
    print_result(options, {"packed": str(options.output), "bytes": n_bytes}, [(str(options.output), rows)])


def _unpack(options: argparse.Namespace) -> None:
    with explain_unwritable(options.output):
        corpus = unpack_corpus(options.packed, options.output, overwrite=options.overwrite)
    print_result(options, {"corpus": str(corpus.folder), **corpus.manifest.to_dict()}, _corpus_tables(corpus))


def _add_info(add: Options) -> None:
    add("path FOLDER", "a corpus, a model, or default: the shipped model", type=Path)
    add("--verify", "verify the checksum of every file")
    add.json()


def _add_pack(add: Options) -> None:
    add("corpus CORPUS", "corpus folder", type=Path)
    add.output("FILE", "file to write", replaces="a file")
    add.json()


def _add_unpack(add: Options) -> None:
    add("packed FILE", "file written by `lmcells pack`", type=Path)
    add.output("CORPUS", "folder to write", replaces="a corpus")
    add.json()


_INFO = """\
describe a corpus or a model

Describe a folder made by lmcells: a corpus (sizes, settings, how it was read, its most frequent words and sections) or
a model (kind, sizes, settings, what it was trained on and how), including elmo.

example:
  lmcells info corpus --verify
  lmcells info model --json
  lmcells info default"""
_PACK = """\
write a corpus to one compressed file

Write a corpus to one compressed file, to copy it to a machine that has only torch and numpy.

example:
  lmcells pack corpus --output corpus.packed"""
_UNPACK = """\
restore a corpus folder from a packed file

Restore the corpus folder that was packed. Every file is verified; a damaged one is refused.

example:
  lmcells unpack corpus.packed --output corpus"""
COMMANDS = {
    "info": Command(_INFO, _add_info, _info),
    "pack": Command(_PACK, _add_pack, _pack),
    "unpack": Command(_UNPACK, _add_unpack, _unpack),
}
