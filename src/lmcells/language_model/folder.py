"""A trained language model as a folder: safetensors, JSON, and a checksum of each file. Nothing is ever unpickled."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import lmcells
from lmcells.corpus import Corpus
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import FormatError, InputError, ModelError
from lmcells.files import atomic_folder, write_json
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.layout import AGAIN, FORMAT, VERSION, is_language_model, read_folder
from lmcells.language_model.model import LanguageModel
from lmcells.pretrained.layout import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS, describe_files, load_names
from lmcells.tensor_files import read_tensors, write_tensors


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
        write_tensors(temporary / WEIGHTS, _weights(model), metadata={"format": "pt"}, durable=True)
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
        arrays, _ = read_tensors(path)
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
