"""The model that comes with the package, and how commands name it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lmcells
import lmcells.pretrained
from lmcells.corpus import WordMetadataCounts
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import ConfigError, ModelError
from lmcells.files import read_json, sha256, write_json
from lmcells.pretrained.sizes import ModelSizes
from lmcells.tensor_files import read_tensors, write_tensors

# Where things stand in a model folder, and the config that vouches for them.


FORMAT = "lmcells-model"
VERSION = 1
TOKENIZER = "1"
"""Which rules of `lmcells.notes.tokens` made the words; changed when they change what a token is."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"
SECTIONS = "sections.json"
STATISTICS = "statistics.safetensors"
PHRASES = "phrases.json"  # of a model with a phrase network
PHRASE_VECTORS = "phrases.safetensors"
SUBWORDS = "subwords.json"  # of a model that reads words it does not know
MODEL_CARD = "README.md"
REQUIRED = (WEIGHTS, VOCABULARY, SECTIONS, STATISTICS)

# Names of tensors as the first models have them, and what they are called now.
_EARLIER_NAMES = {
    "directions": "prototypes",
    "gap_center": "masked_span_center",
    "gap_reader": "masked_span_reader",
}

_AGAIN = "Train or download the model again."


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig:
    """What a saved model is: its settings, what it was trained on and how, and the checksum of each file."""

    kind: str
    model: dict[str, Any]  # the fields of `lmcells.model.ModelConfig`
    metadata_kind: str  # of the corpus: section, category, ...
    tokenizer: str
    dtype: str  # of the stored weights
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # whatever the trainer wanted to be known
    seed: int | None
    files: dict[str, dict[str, Any]]  # name -> {"bytes", "sha256"}
    written_by: str = lmcells.__version__

    @property
    def reads_stop_words(self) -> bool:
        """Whether the corpus had stop words."""
        return has_stop_words(self.corpus["settings"])

    @property
    def sizes(self) -> ModelSizes:
        """The sizes of the model's tables and layers."""
        return ModelSizes.from_config(self.model)

    def save(self, folder: Path) -> None:
        """Write the config; it is the last file of a model to be written."""
        write_json(folder / CONFIG, {"format": FORMAT, "version": VERSION, **self.to_dict()}, indent=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the size and checksum of each file of a model but its config."""
    paths = sorted(path for path in folder.iterdir() if path.name != CONFIG)
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}


def load_config(folder: Path, *, verify: bool = False) -> FolderConfig:
    """Read a model's config and check that each file is there and whole; `verify` reads all of them."""
    if not folder.is_dir():
        found = "is not a folder" if folder.exists() else "does not exist"
        raise ModelError(f"{folder} {found}. Make a model with: lmcells train CORPUS --output {folder}")
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder} is not a model: it has no {CONFIG}. Make one with: lmcells train")
    config = _parse(_read_json(folder / CONFIG), source=folder)
    for name, expected in config.files.items():
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{path} is missing. {_AGAIN}")
        if path.stat().st_size != expected["bytes"]:
            raise ModelError(
                f"{path} is damaged: found {path.stat().st_size:,} bytes, expected {expected['bytes']:,}. {_AGAIN}"
            )
        if verify and sha256(path) != expected["sha256"]:
            raise ModelError(f"{path} is damaged: its checksum differs. {_AGAIN}")
    return config


def load_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the named arrays of a model folder's file."""
    arrays, _ = read_tensors(path)
    return {
        ".".join(_EARLIER_NAMES.get(part, part) for part in name.split(".")): array
        for name, array in arrays.items()
    }


def load_names(path: Path, *, expected: int | None = None, distinct: bool = False) -> list[str]:
    """Read a JSON list of names, as many as expected."""
    names = _read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{path} is damaged: it is not a list of names. {_AGAIN}")
    if expected is not None and len(names) != expected:
        raise ModelError(f"{path} has {len(names):,} names, the model's settings say {expected:,}. {_AGAIN}")
    if distinct and len(set(names)) != len(names):
        raise ModelError(f"{path} is damaged: it has a name twice. {_AGAIN}")
    return names


def _read_json(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{path} is damaged: it is not JSON. {_AGAIN}") from None


def _parse(saved: Any, *, source: Path) -> FolderConfig:
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise ModelError(
            f"{source} is not a model: its {CONFIG} is of another kind. Make one with: lmcells train"
        )
    if saved.get("version") != VERSION:
        raise ModelError(
            f"{source} has model format {saved.get('version')!r}, made by lmcells {saved.get('written_by')}; "
            f"this lmcells ({lmcells.__version__}) reads {VERSION}. Upgrade lmcells or train the model again."
        )
    missing = [name for name in FolderConfig.__slots__ if name not in saved]
    if missing:
        raise ModelError(f"{source / CONFIG} is damaged: it lacks {', '.join(missing)}. {_AGAIN}")
    config = FolderConfig(**{name: saved[name] for name in FolderConfig.__slots__})
    if config.tokenizer != TOKENIZER:
        raise ModelError(
            f"{source} was trained with tokenizer rules {config.tokenizer!r}, this lmcells "
            f"({lmcells.__version__}) has {TOKENIZER!r}. Use the lmcells that made it ({config.written_by}), or "
            "train the model again."
        )
    _require_types(config, source)
    try:
        sizes = config.sizes
    except ConfigError as error:
        raise ModelError(f"{source / CONFIG} is damaged: {error} {_AGAIN}") from None
    if sizes.kind != config.kind:
        raise ModelError(
            f"{source / CONFIG} is damaged: its kind is {config.kind!r} and {sizes.kind!r}. {_AGAIN}"
        )
    return config


def _require_types(config: FolderConfig, source: Path) -> None:
    for name in ("model", "corpus", "training", "files"):
        if not isinstance(getattr(config, name), dict):
            raise ModelError(f"{source / CONFIG} is damaged: {name} is not a mapping. {_AGAIN}")
    for name, entry in config.files.items():
        is_plain = name == Path(name).name and name not in {"", ".."}
        if (
            not is_plain
            or not isinstance(entry, dict)
            or type(entry.get("bytes")) is not int
            or "sha256" not in entry
        ):
            raise ModelError(
                f"{source / CONFIG} is damaged: files has no size and checksum of {name!r}. {_AGAIN}"
            )
    unlisted = [name for name in REQUIRED if name not in config.files]
    if unlisted:
        raise ModelError(f"{source / CONFIG} is damaged: files lacks {', '.join(unlisted)}. {_AGAIN}")


# How often each word stood under each metadata, in one small file.


_NAMES = ("offsets", "metadata", "counts", "word_counts")


def save_statistics(path: Path, counts: WordMetadataCounts, word_counts: npt.NDArray[np.integer]) -> None:
    """Write the counts, each array in the narrowest type that holds it."""
    arrays: dict[str, npt.NDArray[np.integer]] = {
        "offsets": counts.offsets,
        "metadata": counts.metadata,
        "counts": counts.counts,
        "word_counts": word_counts,
    }
    write_tensors(path, {name: _narrow(array) for name, array in arrays.items()}, durable=True)


def load_statistics(
    path: Path, *, n_words: int, n_metadata: int
) -> tuple[WordMetadataCounts, npt.NDArray[np.int64]]:
    """Read the counts of words by metadata, and of words, and check that they are of as many as they should be."""
    arrays, _ = read_tensors(path)
    missing = [name for name in _NAMES if name not in arrays]
    if missing:
        raise ModelError(f"{path} lacks {', '.join(missing)}. Train or download the model again.")
    offsets, metadata, counts, word_counts = (arrays[name] for name in _NAMES)
    are_rows = offsets.shape == (n_words + 1,) and word_counts.shape == (n_words,)
    are_cells = metadata.ndim == 1 and metadata.shape == counts.shape
    if not are_rows or not are_cells or any(array.dtype.kind not in "ui" for array in arrays.values()):
        raise ModelError(
            f"{path} is damaged: it does not count {n_words:,} words. Train or download the model again."
        )
    offsets = offsets.astype(np.int64)
    is_csr = offsets[0] == 0 and offsets[-1] == metadata.size and (np.diff(offsets) >= 0).all()
    if not is_csr or metadata.max(initial=0) >= max(n_metadata, 1):
        raise ModelError(
            f"{path} is damaged: its rows are not counts under {n_metadata:,} metadata. "
            "Train or download the model again."
        )
    table = WordMetadataCounts(offsets, metadata.astype(np.int32), counts.astype(np.int64), n_metadata)
    return table, word_counts.astype(np.int64)


def _narrow(values: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


# The model that comes with the package, and how commands name it.


DEFAULT = "default"


def shipped_model() -> Path:
    """Return the folder of the model that comes with the package."""
    folder = Path(lmcells.pretrained.__file__).parent / DEFAULT
    if not folder.is_dir():
        raise ModelError("no model is shipped in this build. Give a model folder, made with: lmcells train")
    return folder


def model_folder(name: Path | str | None) -> Path:
    """The folder that a person means: "default", or nothing, is the shipped model."""
    return shipped_model() if name is None or name == DEFAULT else Path(name)
