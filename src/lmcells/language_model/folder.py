"""A trained language model as a folder: safetensors, JSON, and a checksum of each file. Nothing is ever unpickled."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import lmcells
from lmcells.corpus import Corpus
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import ConfigError, FormatError, InputError, ModelError
from lmcells.files import atomic_folder, read_json, read_tensors, sha256, write_json, write_tensors
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.model import LanguageModel
from lmcells.pretrained.folder import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS, describe_files, load_names

# What a language model's folder holds, and whether it is whole; read without torch.


FORMAT = "lmcells-language-model"
VERSION = 1
AGAIN = "Train the model again: lmcells train --kind elmo"
EMBEDDINGS = (  # what the paper's counts of parameters leave out
    "words.characters.weight",
    "encoder.boundaries.weight",
    "vocabulary.vectors.weight",
    "vocabulary.biases.weight",
)
_TABLES = {"language_model": dict, "corpus": dict, "training": dict, "files": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelFolder:
    """What a folder says about its model."""

    folder: Path
    config: LanguageModelConfig
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # whatever the trainer wanted to be known
    files: dict[str, Any]  # name -> {"bytes", "sha256"}
    written_by: str


def is_language_model(folder: Path) -> bool:
    """Whether a folder says that it is a language model; it may still be damaged."""
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


def read_folder(folder: Path) -> LanguageModelFolder:
    """Read what a folder says; every checksum is compared."""
    saved = _read_config(folder)
    _require_whole(folder, saved["files"])
    return LanguageModelFolder(
        folder=folder,
        config=_model_config(folder, saved["language_model"]),
        corpus=saved["corpus"],
        training=saved["training"],
        files=saved["files"],
        written_by=str(saved.get("written_by")),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder} is not a language model: it has no {CONFIG}. {AGAIN}")
    try:
        saved = read_json(folder / CONFIG)
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{folder / CONFIG} is damaged: it is not JSON. {AGAIN}") from None
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise ModelError(f"{folder} is not a language model: its {CONFIG} is of another kind. {AGAIN}")
    for name, found, wanted in (
        ("language model format", saved.get("version"), VERSION),
        ("tokenizer rules", saved.get("tokenizer"), TOKENIZER),
    ):
        if found != wanted:
            raise ModelError(
                f"{folder} has {name} {found!r}, made by lmcells {saved.get('written_by')}; this lmcells "
                f"({lmcells.__version__}) has {wanted!r}. Upgrade lmcells or train the model again."
            )
    damaged = [name for name, kind in _TABLES.items() if not isinstance(saved.get(name), kind)]
    if damaged:
        raise ModelError(f"{folder / CONFIG} is damaged: {damaged[0]} is not a mapping. {AGAIN}")
    return saved


def _require_whole(folder: Path, files: dict[str, Any]) -> None:
    for name in (WEIGHTS, VOCABULARY):
        entry = files.get(name)
        if not isinstance(entry, dict) or "sha256" not in entry:
            raise ModelError(f"{folder / CONFIG} is damaged: files has no checksum of {name}. {AGAIN}")
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name} is missing. {AGAIN}")
        if sha256(folder / name) != entry["sha256"]:
            raise ModelError(f"{folder / name} is damaged: its checksum differs. {AGAIN}")


def _model_config(folder: Path, saved: dict[str, Any]) -> LanguageModelConfig:
    known = {setting.name for setting in fields(LanguageModelConfig)}
    if saved.keys() != known:
        differing = ", ".join(sorted(map(str, saved.keys() ^ known)))
        raise ModelError(
            f"{folder / CONFIG} has settings too many, or lacks some: {differing}. Upgrade lmcells, or train again."
        )
    try:
        return LanguageModelConfig(**saved)
    except ConfigError as error:
        raise ModelError(f"{folder / CONFIG} is damaged: {error} {AGAIN}") from None


# A trained language model as a folder: safetensors, JSON, and a checksum of each file. Nothing is ever unpickled.


@dataclass(frozen=True, slots=True)
class PretrainedLanguageModel:
    """What a folder holds: the model in torch (float32, on the CPU, not in training mode) and its vocabulary."""

    folder: Path
    model: LanguageModel = field(repr=False)
    words: list[str] = field(repr=False)
    corpus: dict[str, Any] = field(repr=False)  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any] = field(repr=False)  # whatever the trainer wanted to be known
    written_by: str

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are read, as they were in training."""
        return has_stop_words(self.corpus["settings"])


def save_language_model(
    model: LanguageModel,
    folder: Path | str,
    *,
    corpus: Corpus,
    training: Mapping[str, Any] = {},
    overwrite: bool = False,
) -> None:
    """Write a model folder, which appears only when it is complete.

    `training` is whatever should be known about the training, as plain JSON data. With `overwrite` a language model
    that is there is replaced whole.
    """
    folder = Path(folder)
    _require_free(folder, overwrite=overwrite)
    if model.config.n_words != len(corpus.words):
        raise ModelError(
            f"the model has {model.config.n_words:,} words, {corpus.folder} has {len(corpus.words):,}. Give the corpus "
            "that the model was trained on."
        )
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    with atomic_folder(folder) as temporary:
        write_tensors(temporary / WEIGHTS, _weights(model), metadata={"format": "pt"})
        write_json(temporary / VOCABULARY, corpus.words)
        body = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": lmcells.__version__,
            "tokenizer": TOKENIZER,
            "language_model": model.config.to_dict(),
            "corpus": {
                "fingerprint": corpus.manifest.fingerprint,
                "sizes": corpus.manifest.sizes,
                "settings": corpus.manifest.settings,
            },
            "training": dict(training),
            "files": describe_files(temporary),
        }
        write_json(temporary / CONFIG, body, indent=1)
        if folder.exists():
            folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def load_language_model(folder: Path | str) -> PretrainedLanguageModel:
    """Open a model folder; every checksum is compared."""
    folder = Path(folder)
    saved = read_folder(folder)
    words = load_names(folder / VOCABULARY, expected=saved.config.n_words, distinct=True)
    model = _build(saved.config, folder / WEIGHTS)
    return PretrainedLanguageModel(
        folder, model, words, saved.corpus, saved.training, written_by=saved.written_by
    )


def _require_free(folder: Path, *, overwrite: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{folder} exists already. Choose another folder, or replace it with overwrite.")
    if not is_language_model(folder):
        raise InputError(f"{folder} is not a language model, and is not overwritten. Choose another folder.")


def _weights(model: LanguageModel) -> dict[str, npt.NDArray[Any]]:
    weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in model.state_dict().items()}
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise ModelError(f"{name} holds values that are not finite: training has diverged. Train again.")
    return weights


def _build(config: LanguageModelConfig, path: Path) -> LanguageModel:
    """The model with the weights of a file; no random number is drawn."""
    with torch.device("meta"):
        model = LanguageModel(config)
    try:
        arrays = read_tensors(path)
    except FormatError as error:
        raise ModelError(str(error)) from None
    for name, expected in model.state_dict().items():
        found = arrays.get(name)
        if found is None or found.shape != tuple(expected.shape) or found.dtype.kind != "f":
            described = "is missing" if found is None else f"is of {found.dtype} {found.shape}"
            raise ModelError(
                f"{path}: {name} {described}, the settings need floats {tuple(expected.shape)}. {AGAIN}"
            )
    own = {name: torch.from_numpy(np.array(arrays[name], np.float32)) for name in model.state_dict()}
    model.load_state_dict(own, assign=True)
    return model.eval()
