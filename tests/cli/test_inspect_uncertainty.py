"""`lmcells inspect uncertainty`, as it is typed."""

import json
from pathlib import Path

import pytest

from analysis.planted import small_model
from expansion.clinic import INVENTORY
from lmcells.cli.main import main
from lmcells.expansion import save_inventory
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uncertainty")
    small_model(folder)
    save_inventory(INVENTORY, folder / "senses.csv")
    return folder


def inspect(folder: Path, *arguments: str) -> int:
    named = ["--model", str(folder / "model"), "--inventory", str(folder / "senses.csv"), "--resamples", "20"]
    return main(["inspect", "uncertainty", *arguments, *named])


def test_words_are_listed_from_both_ends_and_correlations_follow(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, "PT", "--min-count", "1", "--top", "2", "--by", "total") == 0
    printed = capsys.readouterr().out
    assert "asked for:" in printed
    assert "largest variance total:" in printed
    assert "sections, frequency fixed" in printed
    assert next(line for line in printed.splitlines() if line.split()[:1] == ["pt"]).split()[1:4] == [
        "80",
        "2.0",
        "2",
    ]


def test_json_has_the_words_and_the_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(folder, "gait", "--min-count", "1", "--top", "3", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["words"][0]["word"] == "gait"
    assert len(printed["most"]) == len(printed["least"]) == 3
    assert printed["most"][0]["within"] >= printed["most"][1]["within"]
    first = printed["associations"][0]
    assert (first["variance"], first["against"], first["given"]) == ("within", "frequency", None)
    assert first["rho"]["low"] <= first["rho"]["estimate"] <= first["rho"]["high"]


def test_the_figure_is_written(folder: Path, tmp_path: Path) -> None:
    assert inspect(folder, "pt", "--min-count", "1", "--output", str(tmp_path / "uncertainty.svg")) == 0
    assert "Prior variance" in (tmp_path / "uncertainty.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gaitt", "--min-count", "1"], "the model does not know the word 'gaitt'. Nearest: gait"),
        (["--min-count", "500"], "0 words of the model were seen 500 times or more; at least 5 are needed"),
        (["valve", "--min-count", "30"], "'valve' was seen"),
        (["--inventory", "none.csv", "--min-count", "1"], "inventory none.csv cannot be read"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    named = ["--model", str(folder / "model"), "--resamples", "20"]
    code = main(["inspect", "uncertainty", *arguments, *named])
    assert_refused(code, capsys, command="inspect", message=message)
