"""`lmcells inspect interpolate`: the table, JSON and figure of a path, and how it refuses."""

import json
from pathlib import Path

import pytest
import torch

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells.cli.main import main
from lmcells.expansion import save_inventory
from refusals import assert_refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("inspect_interpolate")
    corpus = clinic_corpus(folder / "corpus")
    for kind in ("lmc", "bsg"):
        random_model(folder / kind, corpus, kind)
    save_inventory(INVENTORY, folder / "inventory.csv")
    return folder


def interpolate(folder: Path, *arguments: str, kind: str = "lmc") -> int:
    given = ["--model", str(folder / kind), "--inventory", str(folder / "inventory.csv")]
    return main(["inspect", "interpolate", *given, *arguments])


def test_a_table_is_printed_for_each_section(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        interpolate(folder, "PT", "--section", "plan", "--section", "LABS", "--text", "gait PT stairs") == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PT in PLAN, 2 words around it; the gate gives the section 0.")
    assert lines[1].split() == "weight of the section 0.00 0.20 0.40 0.60 0.80 1.00 learnt no section".split()
    assert sorted(line.split("  ")[1] for line in lines[2:4]) == ["physical therapy", "prothrombin time"]
    assert lines[4].startswith("PT in LABS")


def test_json_gives_every_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert interpolate(folder, "PT", "--section", "LABS", "--steps", "5", "--json") == 0
    (path,) = json.loads(capsys.readouterr().out)["paths"]
    assert path["weights"] == [0, 0.25, 0.5, 0.75, 1]
    assert path["n_words"] == 0
    assert [sum(at) for at in zip(*(each["probabilities"] for each in path["long_forms"]), strict=True)] == [
        pytest.approx(1)
    ] * 5


def test_long_forms_may_be_seen_under_no_section(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for more in ([], ["--null-metadata"]):
        assert interpolate(folder, "PT", "--section", "LABS", "--ranking", "divergence", *more) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] != printed[1]


def test_the_shipped_model_moves_mg_with_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    sections = ["--section", "DISCHARGE MEDICATIONS", "--section", "IMAGING"]
    assert main(["inspect", "interpolate", "MG", *sections, "--json"]) == 0
    medications, imaging = json.loads(capsys.readouterr().out)["paths"]
    assert (medications["section"], imaging["section"]) == ("DISCHARGE MEDICATIONS", "IMAGING")
    assert imaging["long_forms"][0]["long_form"] == "mammogram"
    assert medications["long_forms"] != imaging["long_forms"]


def test_a_figure_is_written(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("pt.svg", "pt.pdf", "pt.png"):
        assert interpolate(folder, "PT", "--section", "LABS", "--output", str(tmp_path / name)) == 0
        assert (tmp_path / name).stat().st_size > 1000
    assert "prothrombin time" in (tmp_path / "pt.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PTT", "--section", "LABS"], "Nearest: 'PT'"),
        (["PT", "--section", "LABZ"], "Nearest: LABS"),
        (["PT", "--section", "LABS", "--text", "secret words"], "the text does not contain 'PT'"),
        (["PT", "--section", "LABS", "--steps", "9999"], "steps: found 9999, allowed: 2 to 1,001"),
        (["PT", "--section", "LABS", "--ranking", "masked-span"], "rank by divergence"),
        (["PT", "--section", "LABS", "--output", "pt"], "allowed: .svg, .pdf, .png"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert_refused(interpolate(folder, *arguments), capsys, command="inspect", message=message)


def test_a_model_without_metadata_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = interpolate(folder, "PT", "--section", "LABS", kind="bsg")
    assert_refused(code, capsys, command="inspect", message="kind 'bsg'")
