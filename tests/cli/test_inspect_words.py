"""`lmcells inspect neighbors`, `senses` and `sections`: tables, data, figures, and what is refused."""

import json
from pathlib import Path

import pytest

from analysis.planted import planted_model
from lmcells.cli.main import main
from refusals import assert_refused


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(planted_model(tmp_path_factory.mktemp("planted")).folder)


def inspect(*arguments: str) -> int:
    return main(["inspect", *arguments])


def test_neighbors_are_a_table(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("neighbors", "history", "--section", "social history", "--top", "2", "--model", model) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "history under SOCIAL HISTORY, seen 16 times (9 of them here); variance 0.50; "
    )
    assert lines[1].split() == ["nearest", "KL", "cosine", "seen"]
    assert len(lines) == 4


def test_neighbors_without_a_section_are_those_of_the_average(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect("neighbors", "history", "--model", model) == 0
    assert capsys.readouterr().out.startswith("history on average, seen 16 times; variance 0.50\n")
    assert inspect("neighbors", "history", "--section", "<null>", "--model", model) == 0
    assert capsys.readouterr().out.startswith("history under <null>, seen 16 times; ")


def test_neighbors_for_machines(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--section", "FHX", "--against", "expected", "--by", "cosine", "--min-count", "10", "--json")
    assert inspect("neighbors", "history", *arguments, "--model", model) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["section"], found["against"], found["measure"]) == ("FHX", "expected", "cosine")
    assert [each["word"] for each in found["neighbors"]] == ["mother", "smoking", "sodium"]


def test_senses_are_a_table_with_a_column_a_section(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--sections", "SOCIAL HISTORY", "FAMILY HISTORY", "--words", "smoking", "mother")
    assert inspect("senses", "history", *named, "--model", model) == 0
    out = capsys.readouterr().out
    assert "  A  SOCIAL HISTORY     9" in out
    assert "  B  FAMILY HISTORY     6" in out
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(("  smo", "  mot"))
    }
    assert float(rows["smoking"][0].rstrip("%")) > 90
    assert float(rows["mother"][2].rstrip("%")) > 90
    assert "0% their combination's" in out


def test_senses_for_machines(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("senses", "history", "--json", "--model", model) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["section"] for each in found["sections"]][:2] == ["SOCIAL HISTORY", "FAMILY HISTORY"]
    assert sum(each["probability"] for each in found["average"]["likenesses"]) == pytest.approx(1)
    assert found["movement"]["of_pairs"] == pytest.approx(0, abs=1e-6)


def test_a_section_has_neighbors_in_both_networks(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("sections", "family history", "--top", "1", "--model", model) == 0
    assert capsys.readouterr().out.splitlines() == [
        "FAMILY HISTORY, 21 words",
        "  variational network  cosine  model network  cosine",
        "  FHX                    0.99  FHX              0.99",
    ]


def test_all_sections_are_clustered(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("sections", "--clusters", "3", "--network", "prior", "--top", "2", "--model", model) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "7 sections of the model network in 3 clusters"
    assert "  LABORATORY DATA, CHEMISTRY, and 1 more" in lines
    assert "  SOCIAL HISTORY, SHX" in lines


def test_clusters_for_machines_have_the_map(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("sections", "--clusters", "3", "--json", "--model", model) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["clusters"]) == 3
    assert {each["section"] for each in found["map"]["sections"]} >= {"SHX", "FHX", "PLAN"}
    assert {"x", "y", "cluster"} <= found["map"]["sections"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("neighbors", "history"), "alcohol"),
        (("senses", "history"), "FAMILY HISTORY"),
        (("sections", "SHX"), "SOCIAL HISTORY"),
        (("sections", "--clusters", "3"), "CHEMISTRY"),
    ],
)
def test_figures_are_vectors_with_text_and_do_not_change(
    arguments: tuple[str, ...], name: str, model: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        assert inspect(*arguments, "--output", str(path), "--model", model) == 0
    assert first.read_bytes() == second.read_bytes()
    assert f">{name}</text>" in first.read_text()


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_figures_have_the_format_of_their_ending(
    ending: str, start: bytes, model: str, tmp_path: Path
) -> None:
    path = tmp_path / f"map.{ending}"
    assert inspect("sections", "--clusters", "3", "--output", str(path), "--model", model) == 0
    assert path.read_bytes().startswith(start)


def test_it_is_said_how_many_names_the_map_has(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        inspect("sections", "--clusters", "3", "--output", str(tmp_path / "map.svg"), "--model", model) == 0
    )
    assert "map.svg: 7 of 7 sections named" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("neighbors", "histori"), "Nearest: history"),
        (("neighbors", "history", "--section", "FAMLY"), "Nearest: FAMILY HISTORY"),
        (("neighbors", "history", "--min-count", "99"), "Lower the minimum count"),
        (("senses", "history", "--words", "smok"), "Nearest: smoking"),
        (("sections", "SOCIETY HISTORY"), "Nearest: SOCIAL HISTORY"),
        (("sections", "--clusters", "9"), "allowed: 1 to 7"),
        (("senses", "history", "--output", "x.jpg"), "allowed: .svg, .pdf, .png"),
    ],
)
def test_what_cannot_be_used_is_refused(
    arguments: tuple[str, ...], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = inspect(*arguments, "--model", model)
    assert_refused(code, capsys, command="inspect", message=message)
