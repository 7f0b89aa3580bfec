"""Models by their names on the hub: from its cache, offline, and uploaded only when asked."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lmcells import Expander
from lmcells.errors import ConfigError, MissingExtra, ModelError
from lmcells.pretrained.folder import model_folder, shipped_model

COMMIT, OLDER = "0a" * 20, "0b" * 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache as huggingface_hub lays it out: snapshots are links to blobs."""
    model = tmp_path / "hub" / "models--ward7--cells"
    (model / "blobs").mkdir(parents=True)
    for commit in (COMMIT, OLDER):
        snapshot = model / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for number, file in enumerate(sorted(shipped_model().iterdir())):
            blob = model / "blobs" / f"{number:040x}"
            shutil.copyfile(file, blob)
            (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    (model / "refs" / "v1").write_text(OLDER)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return model


@pytest.mark.usefixtures("cache")
def test_a_cached_model_is_opened_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it would fail
    note = "Pt s/p CABG, in PT."
    expander = Expander.from_pretrained("ward7/cells", verify=True)
    assert expander.model.folder.name == COMMIT
    assert expander(note) == Expander.from_pretrained()(note)


def test_our_cache_is_that_of_the_hub(cache: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    found = hub.snapshot_download("ward7/cells", local_files_only=True, cache_dir=cache.parent)
    assert Path(found).resolve() == model_folder("ward7/cells").resolve()


@pytest.mark.usefixtures("cache")
def test_revisions_are_branches_tags_and_commits() -> None:
    assert model_folder("ward7/cells", revision="v1").name == OLDER
    assert model_folder("ward7/cells", revision=COMMIT).name == COMMIT
    for wrong in ("v2", "../../blobs"):
        with pytest.raises(ModelError, match="not downloaded automatically"):
            model_folder("ward7/cells", revision=wrong)


@pytest.mark.usefixtures("cache")
def test_nothing_is_downloaded_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def snapshot_download(*given: Any, **named: Any) -> str:
        asked.append((given, named))
        return str(shipped_model())

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    with pytest.raises(ModelError, match=r"ward7/other is neither a folder .* Run: hf download ward7/other"):
        Expander.from_pretrained("ward7/other")
    assert asked == []
    Expander.from_pretrained("ward7/other", download=True)
    assert asked == [(("ward7/other",), {"revision": "main"})]
    Expander.from_pretrained("ward7/cells", download=True)  # is there already
    assert len(asked) == 1


def test_a_folder_here_comes_before_the_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cache.parent.parent)
    Path("ward7/cells").mkdir(parents=True)
    assert model_folder("ward7/cells") == Path("ward7/cells")


def test_a_model_is_uploaded_whole_and_private(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []

    class HfApi:
        def create_repo(self, repository: str, **named: Any) -> None:
            calls.append((repository, named))

        def upload_folder(self, **named: Any) -> Any:
            calls.append((named["repo_id"], named))
            return SimpleNamespace(commit_url="https://hub/commit")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=HfApi))
    expander = Expander.from_pretrained()
    assert expander.push_to_hub("ward7/cells") == "https://hub/commit"
    (_, created), (_, uploaded) = calls
    assert created["private"] is True
    assert Path(uploaded["folder_path"]) == shipped_model()
    with pytest.raises(ConfigError, match="allowed: org/name"):
        expander.push_to_hub("cells")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"lmcells\[hub\]"):
        expander.push_to_hub("ward7/cells")
