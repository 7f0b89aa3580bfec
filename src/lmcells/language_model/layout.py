"""What tells a language model's folder from any other; read without torch."""

from pathlib import Path

from lmcells.files import read_json
from lmcells.pretrained.layout import CONFIG

FORMAT = "lmcells-language-model"
VERSION = 1


def is_language_model(folder: Path) -> bool:
    """Whether a folder says that it is a language model; it may still be damaged."""
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT
