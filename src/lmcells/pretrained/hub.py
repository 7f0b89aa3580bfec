"""Models on the Hugging Face hub, named `org/name`. Nothing is downloaded unless you ask for it.

A model in the hub's cache on this machine is opened from there, without `huggingface_hub` and without the network. To
put it there: `hf download org/name`, or `download=True`.
"""

import os
import re
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, MissingExtra, ModelError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MAIN = "main"


def is_repository(name: Path | str) -> bool:
    """Whether a name is that of a model on the hub: `org/name`, and not a folder here."""
    return isinstance(name, str) and _REPOSITORY.fullmatch(name) is not None and not Path(name).exists()


def hub_cache() -> Path:
    """The folder where `huggingface_hub` keeps its downloads."""
    if given := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")
    return Path(home).expanduser() / "hub"


def hub_folder(repository: str, *, revision: str | None = None, download: bool = False) -> Path:
    """Return the folder of a model in the hub's cache; `download` fetches it first if it is missing.

    `revision` is a branch, a tag or a commit; by default the main branch.
    """
    revision = revision or _MAIN
    folder = hub_cache() / f"models--{repository.replace('/', '--')}"
    found = _snapshot(folder, revision)
    if found is not None:
        return found
    if download:
        return Path(_hub("Downloading a model").snapshot_download(repository, revision=revision))
    raise ModelError(
        f"{repository} is neither a folder nor in the cache of the Hugging Face hub ({hub_cache()}), and is not "
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
