"""`lmcells inspect vectors`, as it is typed."""

import json
from pathlib import Path

import pytest

from analysis.planted import small_model
from lmcells.cli.main import BAD_INPUT, main
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    small_model(folder)
    return folder


def inspect(folder: Path, output: Path, *arguments: str) -> int:
    return main(["inspect", "vectors", "--model", str(folder / "model"), "--output", str(output), *arguments])


def test_words_are_written_and_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, tmp_path / "words.txt", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    header, *lines = (tmp_path / "words.txt").read_text().splitlines()
    assert header == f"{printed['words']} {printed['dimensions']}" == f"{len(lines)} 6"
    assert (printed["format"], printed["left_out"]) == ("text", 0)
    assert any(line.startswith("bleeding ") for line in lines)


def test_sections_without_words_are_left_out_and_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, tmp_path / "sections.bin", "--what", "sections") == 0
    printed = capsys.readouterr().out
    assert "left out, no word counted  1" in printed
    assert (tmp_path / "sections.bin").read_bytes().startswith(b"2 6\n")


def test_bad_input_is_refused_in_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = inspect(folder, tmp_path / "v.csv")
    assert_refused(
        code, capsys, command="inspect", message="found the extension '.csv', allowed: .txt, .vec, .bin"
    )
    code = inspect(folder, tmp_path / "none" / "v.txt")
    assert_refused(code, capsys, command="inspect", message="cannot be written: No such file")
    with pytest.raises(SystemExit) as stop:
        main(["inspect", "vectors"])
    assert stop.value.code == BAD_INPUT


def test_a_model_without_sections_has_vectors_of_words_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_model(tmp_path, "bsg")
    assert inspect(tmp_path, tmp_path / "words.vec") == 0
    capsys.readouterr()
    code = inspect(tmp_path, tmp_path / "sections.vec", "--what", "sections")
    assert_refused(code, capsys, command="inspect", message="kind 'bsg'")
