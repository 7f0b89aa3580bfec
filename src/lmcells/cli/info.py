"""`lmcells info`, `pack` and `unpack`: what a folder made by lmcells holds, and a corpus as one file."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.cli.arguments import Command
from lmcells.cli.terminal import flat_rows, print_json, print_table
from lmcells.corpus import Corpus
from lmcells.corpus.corpus import FORMAT as CORPUS
from lmcells.corpus.corpus import MANIFEST
from lmcells.corpus.packing import pack_corpus, unpack_corpus
from lmcells.errors import InputError
from lmcells.language_model.folder import EMBEDDINGS, is_language_model, read_folder
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import CONFIG, TOKENIZER, WEIGHTS, model_folder
from lmcells.tensor_files import read_tensors

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
        _info_corpus(Corpus.open(path, verify=options.verify), as_json=options.json)
    elif is_language_model(path):
        _info_language_model(path, as_json=options.json)
    elif (path / CONFIG).is_file():
        _info_model(PretrainedModel.from_pretrained(path, verify=options.verify), as_json=options.json)
    else:
        raise InputError(
            f"{path} is neither a corpus (no {MANIFEST}) nor a model (no {CONFIG}). "
            f"Make one with: {CORPUS.made_with}, or lmcells train"
        )


def _info_corpus(corpus: Corpus, *, as_json: bool) -> None:
    manifest, sizes = corpus.manifest, corpus.manifest.sizes
    if as_json:
        described = {"corpus": str(corpus.folder), "fingerprint": manifest.fingerprint}
        return print_json(described | manifest.to_dict())
    rows = [
        ("fingerprint", manifest.fingerprint),
        ("written by", f"lmcells {manifest.written_by}"),
        *((name.removeprefix("n_"), count) for name, count in sizes.items()),
        ("tokens per segment", f"{sizes['n_tokens'] / max(1, sizes['n_segments']):.1f}"),
    ]
    print_table(rows, title=str(corpus.folder))
    print_table([(name, str(value)) for name, value in manifest.settings.items()], title="settings")
    _print_most_frequent(corpus.words, corpus.word_counts)
    segment_tokens = np.bincount(corpus.token_segment)
    for kind in corpus.metadata_kinds:
        if kind != "document":
            n_values, names = corpus.n_metadata(kind), corpus.metadata_names(kind)
            tokens = np.bincount(corpus.segment_metadata(kind), weights=segment_tokens, minlength=n_values)
            largest = np.argsort(-tokens, kind="stable")[:_SHOWN]
            title = f"{kind}: {n_values:,} values, by tokens"
            print_table([(names[index], int(tokens[index])) for index in largest], title=title)
    return None


def _info_model(model: PretrainedModel, *, as_json: bool) -> None:
    config = model.config
    n_parameters = sum(array.size for array in model.arrays.values())
    if as_json:
        described = {"model": str(model.folder), "n_parameters": n_parameters, "config": config.to_dict()}
        return print_json(described)
    rows = [
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
    print_table(rows, title=str(model.folder))
    _print_settings(settings=config.model, training=config.training, corpus=config.corpus)
    return _print_most_frequent(model.words, model.word_counts)


def _info_language_model(folder: Path, *, as_json: bool) -> None:
    saved = read_folder(folder)
    arrays, _ = read_tensors(folder / WEIGHTS)
    n_parameters = sum(array.size for array in arrays.values())
    n_inner = n_parameters - sum(array.size for name, array in arrays.items() if name in EMBEDDINGS)
    settings, training = saved.config.to_dict(), saved.training
    if as_json:
        described = {
            "model": str(folder),
            "kind": "elmo",
            "n_parameters": n_parameters,
            "n_parameters_without_embeddings": n_inner,
            "config": {
                "language_model": settings,
                "corpus": saved.corpus,
                "training": training,
                "files": saved.files,
                "written_by": saved.written_by,
            },
        }
        return print_json(described)
    rows = [
        ("kind", f"elmo ({saved.config.kind})"),
        ("written by", f"lmcells {saved.written_by}"),
        ("words", saved.config.n_words),
        ("parameters", n_parameters),
        ("parameters without embeddings", n_inner),
        ("bytes", sum(file["bytes"] for file in saved.files.values())),
        ("tokenizer rules", TOKENIZER),
        ("seed", str(training.get("seed"))),
        ("training ended when", _ENDINGS.get(str(training.get("ended_by")), "not recorded")),
    ]
    print_table(rows, title=str(folder))
    return _print_settings(settings=settings, training=training, corpus=saved.corpus)


def _print_settings(**tables: dict[str, Any]) -> None:
    for title, settings in tables.items():
        print_table(flat_rows(settings), title=title)


def _print_most_frequent(words: list[str], counts: Any) -> None:
    print_table(list(zip(words[:_SHOWN], counts[:_SHOWN].tolist(), strict=True)), title="most frequent words")


def _pack(options: argparse.Namespace) -> None:
    corpus = Corpus.open(options.corpus, verify=True)
    n_bytes = pack_corpus(corpus, options.output)
    if options.json:
        print_json({"packed": str(options.output), "bytes": n_bytes})
    else:
        rows = [("tokens", corpus.manifest.sizes["n_tokens"]), ("bytes", n_bytes)]
        print_table(rows, title=str(options.output))


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=Path, metavar="FOLDER", help="corpus or model folder; default: the shipped model"
    )
    parser.add_argument("--verify", action="store_true", help="compare the checksum of every file")
    parser.add_argument("--json", action="store_true", help="print the manifest or config as JSON")


def _add_pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="corpus folder")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_unpack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("packed", type=Path, metavar="FILE", help="file written by `lmcells pack`")
    parser.add_argument("--output", required=True, type=Path, metavar="CORPUS", help="folder to write")
    parser.add_argument("--json", action="store_true", help="describe the corpus as JSON")


COMMANDS = {
    "info": Command(
        summary="describe a corpus or a model",
        description="Describe a folder made by lmcells: a corpus (sizes, settings, how it was read, its most frequent\n"
        "words and sections) or a model (kind, sizes, settings, what it was trained on and how), elmo included.",
        example="example:\n  lmcells info corpus --verify\n  lmcells info model --json\n  lmcells info default",
        add_arguments=_add_info,
        run=_info,
    ),
    "pack": Command(
        summary="write a corpus to one compressed file",
        description="Write a corpus to one compressed file, to take it to a machine that has only torch and numpy.",
        example="example:\n  lmcells pack corpus --output corpus.packed",
        add_arguments=_add_pack,
        run=_pack,
    ),
    "unpack": Command(
        summary="write the corpus folder that a packed file holds",
        description="Write the corpus folder that was packed. Every file is checked; a damaged one is refused.",
        example="example:\n  lmcells unpack corpus.packed --output corpus",
        add_arguments=_add_unpack,
        run=lambda options: _info_corpus(unpack_corpus(options.packed, options.output), as_json=options.json),
    ),
}
