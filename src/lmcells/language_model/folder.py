"""A trained language model as a folder: safetensors, JSON, and a checksum of each file. Nothing is ever unpickled.

Recognising and describing a folder needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lmcells
from lmcells.corpus import Corpus
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import ConfigError, FormatError, ModelError
from lmcells.files import FolderFormat, atomic_folder, read_tensors, write_json, write_tensors
from lmcells.language_model.config import LanguageModelConfig
from lmcells.pretrained.folder import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS, load_names

if TYPE_CHECKING:
    from lmcells.language_model.model import LanguageModel

_MADE_WITH = "lmcells train CORPUS --kind elmo --output MODEL"
_AGAIN = f"Train the model again: {_MADE_WITH}"
FORMAT = FolderFormat(
    what="language model",
    format="lmcells-language-model",
    version=1,
    index=CONFIG,
    fields={"tokenizer": object, "language_model": dict, "corpus": dict, "training": dict},
    required=(WEIGHTS, VOCABULARY),
    error=ModelError,
    made_with=_MADE_WITH,
    again=_AGAIN,
)
EMBEDDINGS = (  # what the paper's counts of parameters leave out
    "words.characters.weight",
    "encoder.boundaries.weight",
    "vocabulary.vectors.weight",
    "vocabulary.biases.weight",
)


@dataclass(frozen=True, slots=True)
class LanguageModelFolder:
    """What a folder says about its model."""

    folder: Path
    config: LanguageModelConfig
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # the record of the training
    files: dict[str, Any]  # name -> {"bytes", "sha256"}
    written_by: str


@dataclass(frozen=True, slots=True)
class PretrainedLanguageModel:
    """What a folder holds: the model in torch (float32, on the CPU, in evaluation mode) and its vocabulary."""

    model: "LanguageModel" = field(repr=False)
    words: list[str] = field(repr=False)
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # the record of the training

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are read, as they were in training."""
        return has_stop_words(self.corpus["settings"])


def is_language_model(folder: Path) -> bool:
    """Whether a folder says that it is a language model; it may still be damaged."""
    return FORMAT.is_format_of(folder)


def read_folder(folder: Path) -> LanguageModelFolder:
    """Read what a folder says; every checksum is compared."""
    saved, path = FORMAT.read_index(folder, verify=True), folder / CONFIG
    if saved["tokenizer"] != TOKENIZER:
        raise ModelError(
            f"{folder} has tokenizer rules {saved['tokenizer']!r}, made by lmcells {saved.get('written_by')}; this "
            f"lmcells ({lmcells.__version__}) has {TOKENIZER!r}. Upgrade lmcells or train the model again."
        )
    differing = saved["language_model"].keys() ^ {setting.name for setting in fields(LanguageModelConfig)}
    if differing:
        raise ModelError(
            f"{path} has settings that this lmcells does not know, or lacks some: {', '.join(sorted(differing))}. "
            "Upgrade lmcells, or train again."
        )
    try:
        config = LanguageModelConfig(**saved["language_model"])
    except ConfigError as error:
        raise ModelError(f"{path} is damaged: {error} {_AGAIN}") from None
    said = {name: saved[name] for name in ("corpus", "training", "files")}
    return LanguageModelFolder(folder, config, written_by=str(saved.get("written_by")), **said)


def save_language_model(
    model: "LanguageModel",
    folder: Path | str,
    *,
    corpus: Corpus,
    training: Mapping[str, Any] = {},
    overwrite: bool = False,
) -> None:
    """Write a model folder, which appears only when it is complete.

    `training` is whatever should be known about the training, as plain JSON data. With `overwrite` an existing
    language model is replaced.
    """
    folder = Path(folder)
    FORMAT.require_free(folder, overwrite=overwrite)
    if model.config.n_words != len(corpus.words):
        raise ModelError(
            f"the model has {model.config.n_words:,} words, {corpus.folder} has {len(corpus.words):,}. Give the corpus "
            "that the model was trained on."
        )
    weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in model.state_dict().items()}
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise ModelError(f"{name} holds values that are not finite: training has diverged. Train again.")
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        write_tensors(temporary / WEIGHTS, weights, metadata={"format": "pt"})
        write_json(temporary / VOCABULARY, corpus.words)
        manifest = corpus.manifest
        body = {
            "written_by": lmcells.__version__,
            "tokenizer": TOKENIZER,
            "language_model": model.config.to_dict(),
            "corpus": {name: getattr(manifest, name) for name in ("fingerprint", "sizes", "settings")},
            "training": dict(training),
            "files": FORMAT.describe_files(temporary),
        }
        FORMAT.write_index(temporary, body)


def load_language_model(folder: Path | str) -> PretrainedLanguageModel:
    """Open a model folder; every checksum is compared, and no random number is drawn."""
    import torch

    from lmcells.language_model.model import LanguageModel

    folder = Path(folder)
    saved = read_folder(folder)
    words = load_names(folder / VOCABULARY, expected=saved.config.n_words, distinct=True)
    with torch.device("meta"):
        model = LanguageModel(saved.config)
    try:
        arrays = read_tensors(folder / WEIGHTS)
    except FormatError as error:
        raise ModelError(str(error)) from None
    weights = {}
    for name, expected in model.state_dict().items():
        found = arrays.get(name)
        if found is None or found.shape != tuple(expected.shape) or found.dtype.kind != "f":
            described = "is missing" if found is None else f"is of {found.dtype} {found.shape}"
            raise ModelError(
                f"{folder / WEIGHTS}: {name} {described}, the settings need floats {tuple(expected.shape)}. {_AGAIN}"
            )
        weights[name] = torch.from_numpy(np.array(found, np.float32))
    model.load_state_dict(weights, assign=True)
    return PretrainedLanguageModel(model.eval(), words, saved.corpus, saved.training)
