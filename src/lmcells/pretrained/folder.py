"""The files of a model folder: how each is written, read and checked.

`config.json` describes the model and has the checksums of the other files; `model.safetensors` holds the tensors of the
torch model by name, `statistics.safetensors` how often each word occurs under each metadata value.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import lmcells
import lmcells.pretrained
from lmcells.corpus import WordMetadataCounts
from lmcells.corpus.statistics import narrowest
from lmcells.errors import ConfigError, FormatError, MissingExtra, ModelError
from lmcells.files import FolderFormat, read_json, read_tensors, write_tensors
from lmcells.model.config import ModelConfig, Shapes
from lmcells.settings import from_saved

Array = npt.NDArray[Any]

DEFAULT = "default"  # the commands' name for the model that comes with the package
TOKENIZER = "1"
"""The version of the rules of `lmcells.notes.tokens` that a model was trained with."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"
SECTIONS = "sections.json"
STATISTICS = "statistics.safetensors"
PHRASES = "phrases.json"  # of a model with a phrase network
PHRASE_VECTORS = "phrases.safetensors"
SUBWORDS = "subwords.json"  # of a model that reads out-of-vocabulary words
MODEL_CARD = "README.md"
REQUIRED = (WEIGHTS, VOCABULARY, SECTIONS, STATISTICS)
AGAIN = "Train or download the model again."

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COUNTS = ("offsets", "metadata", "counts", "word_counts")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig:
    """What a saved model is, on what and how it was trained, and the checksum of each file."""

    kind: str
    model: dict[str, Any]  # the fields of `lmcells.model.ModelConfig`
    metadata_kind: str  # of the corpus: section, category, ...
    tokenizer: str
    dtype: str  # of the stored weights
    corpus: dict[str, Any]  # {"fingerprint", "sizes", "settings"}
    training: dict[str, Any]  # whatever the trainer recorded
    seed: int | None
    files: dict[str, dict[str, Any]]  # name -> {"bytes", "sha256"}
    written_by: str = lmcells.__version__

    @classmethod
    def load(cls, folder: Path, *, verify: bool = False) -> Self:
        """Read a model's config and check that each file is there and has its size; `verify` compares checksums."""
        saved = FORMAT.read_index(folder, verify=verify)
        config = cls(**{name: saved[name] for name in cls.__slots__})
        require_readable(folder, saved)
        try:
            kind = from_saved(ModelConfig, config.model).kind
        except ConfigError as error:
            raise ModelError(f"{folder / CONFIG}: {error} {AGAIN}") from None
        if kind != config.kind:
            raise ModelError(
                f"{folder / CONFIG} is damaged: its kind is {config.kind!r} and {kind!r}. {AGAIN}"
            )
        return config

    def save(self, folder: Path) -> None:
        """Write the config, the last file of a model to be written."""
        FORMAT.write_index(folder, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def require_readable(folder: Path, saved: Mapping[str, Any]) -> None:
    """Refuse a model that was trained on words of other rules, or does not say whether it reads stop words."""
    settings = saved["corpus"].get("settings")
    if not isinstance(settings, dict) or type(settings.get("stop_words")) is not bool:
        raise ModelError(f"{folder / CONFIG} is damaged: the settings of its corpus lack stop_words. {AGAIN}")
    if saved["tokenizer"] != TOKENIZER:
        raise ModelError(
            f"{folder} was trained with tokenizer rules {saved['tokenizer']!r}, this lmcells ({lmcells.__version__}) "
            f"has {TOKENIZER!r}. Use lmcells {saved.get('written_by')}, which made it, or train the model again."
        )


FORMAT = FolderFormat(
    what="model",
    format="lmcells-model",
    version=1,
    index=CONFIG,
    fields={
        name: dict if name in ("model", "corpus", "training") else object for name in FolderConfig.__slots__
    },
    required=REQUIRED,
    error=ModelError,
    made_with="lmcells train CORPUS --output MODEL",
    again=AGAIN,
)


def load_tensors(path: Path) -> dict[str, Array]:
    try:
        return read_tensors(path)
    except FormatError as error:
        raise ModelError(str(error)) from None


def require_tensors(path: Path, arrays: Mapping[str, Array], expected: Shapes) -> dict[str, Array]:
    """Return the tensors that a model needs; refuse a file that lacks one, or has one of another shape."""
    for name, shape in expected.items():
        found = arrays.get(name)
        if found is None or found.shape != shape or found.dtype.kind != "f":
            described = "is missing" if found is None else f"is of {found.dtype} {found.shape}"
            raise ModelError(f"{path}: {name} {described}, the model's settings need floats {shape}. {AGAIN}")
        if not np.isfinite(found).all():
            raise ModelError(f"{path}: {name} has numbers that are infinite or none at all. {AGAIN}")
    return {name: arrays[name] for name in expected}


def load_names(path: Path, *, expected: int | None = None, distinct: bool = False) -> list[str]:
    """Read a JSON list of names, with the expected length."""
    try:
        names = read_json(path)
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{path} is damaged: it is not JSON. {AGAIN}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{path} is damaged: it is not a list of names. {AGAIN}")
    if expected is not None and len(names) != expected:
        raise ModelError(f"{path} has {len(names):,} names, the model's settings say {expected:,}. {AGAIN}")
    if distinct and len(set(names)) != len(names):
        raise ModelError(f"{path} is damaged: it contains a name twice. {AGAIN}")
    return names


def load_weights(path: Path, config: ModelConfig) -> dict[str, Array]:
    arrays = load_tensors(path)
    for name in [name for name in arrays if name.endswith(SCALE)]:
        table, scale = name.removesuffix(SCALE), arrays.pop(name)
        levels = arrays.get(table, np.zeros(0))
        if scale.shape != (*levels.shape[:1], 1):  # their product could be as large as anything
            raise ModelError(f"{path}: {name} does not have a number for each row of {table}. {AGAIN}")
        arrays[table] = from_eight_bits(levels, scale)
    return require_tensors(path, arrays, config.tensor_shapes())


# Tables of word vectors in eight bits: each row has its own scale, and 255 levels between its extremes.

SCALE = ".scale"  # after the name of a table: the tensor with the scales of its rows
_LEVELS = 127


def to_eight_bits(rows: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Round each row to 255 levels: (n, d) -> (n, d), (n, 1)."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    scale = np.maximum(largest / _LEVELS, np.finfo(np.float16).tiny).astype(np.float16)
    levels = np.clip(np.rint(rows / scale.astype(np.float32)), -_LEVELS, _LEVELS)
    return levels.astype(np.int8), scale


def from_eight_bits(levels: npt.NDArray[np.int8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return the rows, each number within half a level of what it was."""
    return levels.astype(np.float32) * scale.astype(np.float32)


def save_statistics(path: Path, counts: WordMetadataCounts, word_counts: npt.NDArray[np.integer]) -> None:
    """Write the counts, each array in the narrowest type that holds it."""
    arrays = {name: getattr(counts, name) for name in _COUNTS[:-1]} | {_COUNTS[-1]: word_counts}
    write_tensors(path, {name: narrowest(array) for name, array in arrays.items()})


def load_statistics(
    path: Path, *, n_words: int, n_metadata: int
) -> tuple[WordMetadataCounts, npt.NDArray[np.int64]]:
    """Read the counts of words by metadata, and of words."""
    arrays = load_tensors(path)
    missing = [name for name in _COUNTS if name not in arrays]
    if missing:
        raise ModelError(f"{path} lacks {', '.join(missing)}. {AGAIN}")
    offsets, metadata, counts, word_counts = (arrays[name] for name in _COUNTS)
    are_rows = offsets.shape == (n_words + 1,) and word_counts.shape == (n_words,)
    are_cells = metadata.ndim == 1 and metadata.shape == counts.shape
    if not are_rows or not are_cells or any(array.dtype.kind not in "ui" for array in arrays.values()):
        raise ModelError(f"{path} is damaged: it does not count {n_words:,} words. {AGAIN}")
    offsets = offsets.astype(np.int64)
    is_csr = offsets[0] == 0 and offsets[-1] == metadata.size and (np.diff(offsets) >= 0).all()
    if not is_csr or metadata.max(initial=0) >= max(n_metadata, 1):
        raise ModelError(f"{path} is damaged: its rows are not counts under {n_metadata:,} metadata. {AGAIN}")
    table = WordMetadataCounts(offsets, metadata.astype(np.int32), counts.astype(np.int64), n_metadata)
    return table, word_counts.astype(np.int64)


def shipped_model() -> Path:
    """Return the folder of the model that comes with the package."""
    folder = Path(lmcells.pretrained.__file__).parent / DEFAULT
    if not folder.is_dir():
        raise ModelError("this build comes without a model. Give a model folder, made with: lmcells train")
    return folder


def model_folder(name: Path | str | None, *, revision: str | None = None, download: bool = False) -> Path:
    """Return the folder of a model; "default" and None are the shipped model, "org/name" is one in the hub's cache."""
    if name is None or name == DEFAULT:
        return shipped_model()
    if isinstance(name, str) and _REPOSITORY.fullmatch(name) and not Path(name).exists():
        return _hub_folder(name, revision or "main", download=download)
    return Path(name)


# Models on the Hugging Face hub, named `org/name`. One in the hub's cache on this machine is opened from there, without
# `huggingface_hub` and without the network; nothing is downloaded unless you ask for it.


def _hub_cache() -> Path:
    """The folder where `huggingface_hub` keeps its downloads."""
    if given := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")
    return Path(home).expanduser() / "hub"


def _hub_folder(repository: str, revision: str, *, download: bool) -> Path:
    """Return the folder of a model in the hub's cache, at a branch, tag or commit; `download` fetches a missing one."""
    folder = _hub_cache() / f"models--{repository.replace('/', '--')}"
    found = _snapshot(folder, revision)
    if found is not None:
        return found
    if download:
        return Path(_hub("Downloading a model").snapshot_download(repository, revision=revision))
    raise ModelError(
        f"{repository} is neither a folder nor in the cache of the Hugging Face hub ({_hub_cache()}), and is not "
        f"downloaded automatically. Run: hf download {repository}, or use download=True."
    )


def _snapshot(folder: Path, revision: str) -> Path | None:
    """Find a revision in the cache: refs/NAME holds the commit of a branch or tag, snapshots/COMMIT the files."""
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    if not re.fullmatch(r"[\w-]+", commit):
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def push_folder(folder: Path, repository: str, *, private: bool, message: str | None) -> str:
    """Upload a model folder; -> the address of the commit."""
    if _REPOSITORY.fullmatch(repository) is None:
        raise ConfigError(f"repository: found {repository!r}, allowed: org/name.")
    api = _hub("Uploading a model").HfApi()
    api.create_repo(repository, private=private, exist_ok=True, repo_type="model")
    commit = api.upload_folder(
        repo_id=repository,
        folder_path=str(folder),
        repo_type="model",
        commit_message=message or "Upload a model of lmcells",
    )
    return str(commit.commit_url)


def _hub(purpose: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtra("huggingface_hub", extra="hub", purpose=purpose) from None
    return huggingface_hub
