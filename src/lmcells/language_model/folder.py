"""A trained language model as a folder: safetensors, JSON, and a checksum of each file. Nothing is ever unpickled.

Recognising and describing a folder needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lmcells
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, ModelError
from lmcells.files import FolderFormat, atomic_folder, write_json, write_tensors
from lmcells.language_model.config import LanguageModelConfig
from lmcells.pretrained import folder as layout
from lmcells.pretrained.folder import CONFIG, VOCABULARY, WEIGHTS
from lmcells.pretrained.save import corpus_record, require_corpus_of, stored_weights
from lmcells.settings import from_saved

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
class PretrainedLanguageModel:
    """What a folder holds: the model in torch (float32, on the CPU, in evaluation mode) and its vocabulary."""

    model: "LanguageModel" = field(repr=False)
    words: list[str] = field(repr=False)
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # the record of the training

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are read, as they were in training."""
        return bool(self.corpus["settings"]["stop_words"])


def is_language_model(folder: Path) -> bool:
    """Whether a folder says that it is a language model; it may still be damaged."""
    return FORMAT.is_format_of(folder)


def read_folder(folder: Path) -> tuple[LanguageModelConfig, dict[str, Any]]:
    """Return the model's settings, and the index that they are in; every checksum is compared."""
    saved = FORMAT.read_index(folder, verify=True)
    layout.require_readable(folder, saved)
    try:
        return from_saved(LanguageModelConfig, saved["language_model"]), saved
    except ConfigError as error:
        raise ModelError(f"{folder / CONFIG}: {error} {_AGAIN}") from None


def save_language_model(
    model: "LanguageModel", folder: Path, *, corpus: Corpus, training: Mapping[str, Any]
) -> None:
    """Write a model folder, which appears only when it is complete, in the place of any other language model.

    `training` is whatever should be known about the training, as plain JSON data.
    """
    FORMAT.require_free(folder, overwrite=True)
    require_corpus_of(corpus, "words", model.config.n_words, len(corpus.words))
    with atomic_folder(folder, overwrite=True) as temporary:
        weights = stored_weights(model.state_dict(), "float32")
        write_tensors(temporary / WEIGHTS, weights, metadata={"format": "pt"})
        write_json(temporary / VOCABULARY, corpus.words)
        body = {
            "written_by": lmcells.__version__,
            "tokenizer": layout.TOKENIZER,
            "language_model": model.config.to_dict(),
            "corpus": corpus_record(corpus),
            "training": training,
            "files": FORMAT.describe_files(temporary),
        }
        FORMAT.write_index(temporary, body)


def load_language_model(folder: Path) -> PretrainedLanguageModel:
    """Open a model folder; every checksum is compared, and no random number is drawn."""
    import torch

    from lmcells.language_model.model import LanguageModel

    config, saved = read_folder(folder)
    words = layout.load_names(folder / VOCABULARY, expected=config.n_words, distinct=True)
    try:
        with torch.device("meta"):
            model = LanguageModel(config)
    except RuntimeError:
        raise ModelError(f"{folder / CONFIG} is damaged: no layer can be so large. {_AGAIN}") from None
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    arrays = layout.require_tensors(folder / WEIGHTS, layout.load_tensors(folder / WEIGHTS), expected)
    weights = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in arrays.items()}
    model.load_state_dict(weights, assign=True)
    return PretrainedLanguageModel(model.eval(), words, saved["corpus"], saved["training"])
