"""What a protocol reads: where it is, and what it held."""

import os
from pathlib import Path

import pytest

from lmcells.evaluation.reproduce.protocol import Digests, MissingSource, Source


def source(written: str, folder: Path, **hints: str) -> Source:
    return Source(written, folder, hints)


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert source("notes.txt", tmp_path).path() == tmp_path / "notes.txt"
    assert source(str(tmp_path / "notes.txt"), Path("elsewhere")).path() == tmp_path / "notes.txt"


def test_a_variable_that_is_not_set_says_how_to_get_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIMIC_NOTES", raising=False)
    mimic = source("${MIMIC_NOTES}", tmp_path, MIMIC_NOTES="Get it from PhysioNet.")
    with pytest.raises(
        MissingSource, match=r"MIMIC_NOTES is not set.*Get it from PhysioNet.*export MIMIC_NOTES=PATH"
    ):
        mimic.path()
    monkeypatch.setenv("MIMIC_NOTES", str(tmp_path / "absent"))
    with pytest.raises(MissingSource, match=r"does not exist.*Get it from PhysioNet"):
        mimic.path()
    monkeypatch.setenv("MIMIC_NOTES", str(tmp_path))
    assert mimic.path() == tmp_path


def test_a_package_is_found_or_said_to_be_missing(tmp_path: Path) -> None:
    assert source("package:lmcells/training/presets", tmp_path).path().joinpath("paper.toml").is_file()
    missing = Source("package:no_such_package/model", tmp_path, {"package:no_such_package/model": "Run: pip"})
    with pytest.raises(MissingSource, match=r"no_such_package is not installed. Run: pip"):
        missing.path()
    with pytest.raises(MissingSource, match="has no 'nothing'"):
        source("package:lmcells/nothing", tmp_path).path()


def test_a_digest_follows_the_content_and_outlives_the_file(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one")
    notes = source("notes.txt", tmp_path)
    first = Digests(tmp_path / "d.json").of(notes)
    os.utime(file, ns=(1, 1))
    assert Digests(tmp_path / "d.json").of(notes) == first
    file.write_text("two")
    second = Digests(tmp_path / "d.json").of(notes)
    assert second != first
    file.unlink()
    assert Digests(tmp_path / "d.json").of(notes) == second
    with pytest.raises(MissingSource):
        Digests(tmp_path / "other.json").of(notes)


def test_the_digest_of_a_folder_follows_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a").write_text("x")
    notes = source("notes", tmp_path)
    first = Digests(tmp_path / "d.json").of(notes)
    (folder / "a").rename(folder / "b")
    assert Digests(tmp_path / "e.json").of(notes) != first
