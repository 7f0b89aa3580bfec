"""A trained model -> a folder, which appears only when it is complete."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus, count_words_by_metadata
from lmcells.errors import InputError, ModelError
from lmcells.files import read_json, write_json
from lmcells.pretrained import layout
from lmcells.pretrained.eight_bits import SCALE, to_eight_bits
from lmcells.pretrained.model_card import model_card
from lmcells.pretrained.phrase_store import PhraseStore
from lmcells.pretrained.statistics_file import save_statistics
from lmcells.pretrained.subword_fit import fit_subwords
from lmcells.pretrained.subwords import TABLE
from lmcells.tensor_files import write_tensors

if TYPE_CHECKING:
    from lmcells.model import CellModel
    from lmcells.pretrained.pretrained_model import PretrainedModel
    from lmcells.training.prototypes import Prototypes

StoredDtype = Literal["float32", "float16", "int8"]
_LEAST_COUNT = 12  # of a word under a section that is stored under "int8"
_TABLE = ".words.weight"  # what is stored in eight bits under "int8"; the rest is then of half precision


def save_pretrained(
    model: "CellModel",
    folder: Path | str,
    *,
    corpus: Corpus,
    metadata_kind: str = "section",
    training: Mapping[str, Any] = {},
    prototypes: "Prototypes | None" = None,
    dtype: StoredDtype = "float32",
    overwrite: bool = False,
) -> None:
    """Write a model folder: weights, vocabulary, metadata names, statistics, config and model card.

    `training` is whatever should be known about the training, as plain JSON data; its "seed" is kept as the
    model's. `prototypes` are what occurrences taught about phrases. "float16" and "int8" (word vectors in eight
    bits, the rest in half precision) make the file small for shipping. With `overwrite` a model folder that is there
    is replaced whole.
    """
    folder = Path(folder)
    _require_free(folder, overwrite=overwrite)
    names = _metadata_names(model, corpus, metadata_kind)
    with _new_folder(folder) as temporary:
        write_tensors(
            temporary / layout.WEIGHTS, _weights(model, dtype), metadata={"format": "pt"}, durable=True
        )
        write_json(temporary / layout.VOCABULARY, corpus.words)
        write_json(temporary / layout.SECTIONS, names)
        counts = count_words_by_metadata(corpus, metadata_kind)
        if dtype == "int8":
            counts = counts.at_least(_LEAST_COUNT)
        save_statistics(temporary / layout.STATISTICS, counts, np.asarray(corpus.word_counts))
        if prototypes is not None:
            PhraseStore.of_prototypes(prototypes).save(temporary)
            table = model.state_dict()[TABLE].detach().cpu().float().numpy()
            if subwords := fit_subwords(corpus.words, table, np.asarray(corpus.word_counts)):
                subwords.save(temporary)
        config = layout.FolderConfig(
            kind=model.config.kind,
            model=asdict(model.config),
            metadata_kind=metadata_kind,
            tokenizer=layout.TOKENIZER,
            dtype=dtype,
            corpus={
                "fingerprint": corpus.manifest.fingerprint,
                "sizes": corpus.manifest.sizes,
                "settings": corpus.manifest.settings,
            },
            training=dict(training),
            seed=training.get("seed"),
            files=layout.describe_files(temporary),
        )
        # The card is for people to edit, so no checksum vouches for it.
        (temporary / layout.MODEL_CARD).write_text(model_card(config), encoding="utf-8")
        config.save(temporary)


def save_compiled(
    model: "PretrainedModel",
    folder: Path | str,
    *,
    store: PhraseStore,
    inventory: str,
    corpus: Corpus,
    n_phrases: int,
) -> None:
    """Write a copy of a model folder, whatever else lies in it, with a store that knows an inventory's phrases.

    `inventory` is its name; it is kept with the corpus and how many phrases it was worth, in config and card.
    """
    folder = Path(folder)
    _require_free(folder, overwrite=False)
    fingerprint = corpus.manifest.fingerprint
    compiled = {"inventory": inventory, "corpus": fingerprint, "phrases": n_phrases}
    line = f"- {n_phrases:,} phrases of `{inventory}`, by their occurrences in corpus `{fingerprint}`\n"
    with _new_folder(folder) as temporary:
        for path in model.folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, temporary / path.name)
        store.save(temporary)
        _add_line(temporary / layout.MODEL_CARD, line, heading="## Compiled inventories\n\n")
        before, described = model.config.training.get("compiled", []), layout.describe_files(temporary)
        replace(
            model.config,
            training=model.config.training
            | {"compiled": before if compiled in before else [*before, compiled]},
            files={name: described[name] for name in model.config.files},
        ).save(temporary)


def _add_line(card: Path, line: str, *, heading: str) -> None:
    """Put a line at the end of a card, unless it is there; the rest stays as it is, for people edit it."""
    text = card.read_bytes() if card.is_file() else b""
    if line.encode() not in text:
        heading = "" if heading.encode() in text else f"\n{heading}"
        card.write_bytes(text + heading.encode() + line.encode())


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; it takes the place of `folder` only when the block ends without an error."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _put_in_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _require_free(folder: Path, *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(f"{folder} exists already. Choose another folder, or replace it with overwrite.")
    if not folder.is_dir() or (any(folder.iterdir()) and not _is_model(folder)):
        raise InputError(f"{folder} is not a model folder, and is not overwritten. Choose another folder.")


def _is_model(folder: Path) -> bool:
    try:
        config = read_json(folder / layout.CONFIG)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == layout.FORMAT


def _metadata_names(model: "CellModel", corpus: Corpus, kind: str) -> list[str]:
    names = corpus.metadata_names(kind)
    pairs = [
        ("words", model.config.n_words, len(corpus.words)),
        (f"metadata {kind!r}", model.config.n_metadata, len(names)),
    ]
    for what, of_model, of_corpus in pairs[:1] if model.config.kind == "bsg" else pairs:
        if of_model != of_corpus:
            raise ModelError(
                f"the model has {of_model:,} {what}, {corpus.folder} has {of_corpus:,}. "
                "Give the corpus that the model was trained on."
            )
    return names


def _weights(model: "CellModel", dtype: StoredDtype) -> dict[str, npt.NDArray[Any]]:
    floats = "float16" if dtype == "int8" else dtype
    limit = float(np.finfo(floats).max)
    weights: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().cpu().float().numpy()
        if not (np.abs(array) <= limit).all():  # nor is NaN
            raise ModelError(
                f"{name} holds values that are not finite in {dtype}: training has diverged. Train again."
            )
        if dtype == "int8" and name.endswith(_TABLE):
            weights[name], weights[name + SCALE] = to_eight_bits(array)
        else:
            weights[name] = array.astype(floats)
    return weights


def _put_in_place(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(old)
    try:
        temporary.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
