"""The model that comes with the package, and how commands name it."""

from pathlib import Path

import lmcells.pretrained
from lmcells.errors import ModelError

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
