"""`lmcells inspect mixtures`, as it is typed."""

import json
from pathlib import Path

import pytest

from analysis.planted import small_model
from lmcells.cli.main import BAD_INPUT, main
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixtures")
    small_model(folder)
    return folder


def inspect(folder: Path, *arguments: str) -> int:
    return main(["inspect", "mixtures", *arguments, "--model", str(folder / "model"), "--samples", "100"])


def test_words_and_phrases_are_described_and_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, "PT", "gait", "mitral stenosis") == 0
    printed = capsys.readouterr().out
    assert "pt: 2 sections, counted on 80 of 80 occurrences" in printed
    assert "mitral stenosis: " in printed
    assert "KL(one || other) in nats, 100 draws" in printed
    assert "gait || mitral stenosis" in printed
    assert " ± " in printed


def test_one_word_has_nothing_to_be_compared_with(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(folder, "pt", "PT") == 0
    assert "KL" not in capsys.readouterr().out


def test_sections_are_mixtures_of_their_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(folder, "--sections", "labs", "PLAN", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in printed["marginals"]] == ["LABS", "PLAN"]
    assert {each["name"] for each in printed["marginals"][0]["components"]} > {"bleeding", "pt"}
    assert printed["divergences"][0]["from"] == "LABS"
    assert set(printed["divergences"][0]) == {"from", "to", "sampled", "matched", "variational", "convex"}
    assert len(printed["marginals"][0]["mean"]) == 6


def test_top_limits_what_is_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(folder, "--sections", "labs", "--top", "0") == 0
    assert "weight  variance" not in capsys.readouterr().out


def test_the_figure_is_written(folder: Path, tmp_path: Path) -> None:
    assert inspect(folder, "pt", "gait", "--output", str(tmp_path / "mixtures.svg")) == 0
    assert "KL(row || column)" in (tmp_path / "mixtures.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gaitt"], "the model does not know the word 'gaitt'. Nearest: gait"),
        (["--sections", "LABZ"], "the model does not know the section 'LABZ'. Nearest: LABS"),
        (["--sections", "<no section>"], "no counts of the words under '<no section>'"),
        (["pt", "--output", "x.gif"], "found the extension '.gif'"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert_refused(inspect(folder, *arguments), capsys, command="inspect", message=message)


@pytest.mark.parametrize("option", ["--samples", "--top", "--seed"])
def test_numbers_out_of_range_are_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    for value in ("-3", "many"):
        with pytest.raises(SystemExit) as stop:
            main(["inspect", "mixtures", "pt", f"{option}={value}"])
        error = capsys.readouterr().err
        assert stop.value.code == BAD_INPUT
        assert f"argument {option}: found '{value}', allowed: a whole number from" in error
        assert error.count("\n") == 1
