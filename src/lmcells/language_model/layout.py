"""What a language model's folder holds, and whether it is whole; read without torch."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import lmcells
from lmcells.errors import ConfigError, ModelError
from lmcells.files import read_json, sha256
from lmcells.language_model.config import LanguageModelConfig
from lmcells.pretrained.layout import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS

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
