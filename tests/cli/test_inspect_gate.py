"""`lmcells inspect gate`: notes, a text or a dataset; tables, JSON and a figure; and how it refuses."""

import json
from pathlib import Path

import pytest
import torch

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells.cli.main import main
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.expansion import save_inventory
from note_files import write_jsonl
from refusals import assert_refused

NOTE = "PLAN: gait and PT on stairs.\n\nLABS: clotting PT.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("inspect_gate")
    corpus = clinic_corpus(folder / "corpus")
    for kind in ("lmc", "bsg"):
        random_model(folder / kind, corpus, kind)
    save_inventory(INVENTORY, folder / "inventory.csv")
    texts = [("PLAN", f"{word} gait PT on stairs") for word in ("walking", "balance", "strength")]
    texts += [("LABS", "PT"), ("LABS", "clotting PT"), (None, "an MS of nobody")]
    examples = []
    for number, (section, text) in enumerate(texts):
        short_form = "PT" if "PT" in text else "MS"
        start = text.index(short_form)
        examples.append(
            Example(f"e{number}", text, start, start + 2, short_form, section, "physical therapy", "n/1")
        )
    write_dataset(folder / "dataset.jsonl", examples)
    return folder


def gate(folder: Path, *arguments: str, kind: str = "lmc") -> int:
    given = ["--model", str(folder / kind), "--inventory", str(folder / "inventory.csv")]
    return main(["inspect", "gate", *given, *arguments])


def test_a_dataset_is_weighed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(folder, "--dataset", str(folder / "dataset.jsonl"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["n"] == 6
    assert {each["section"]: each["n"] for each in found["summary"]["sections"]}["PLAN"] == 3
    assert len(found["examples"]) == 6
    weights = [each["weight"] for each in found["examples"]]
    assert weights == sorted(weights)
    assert {each["long_form"] for each in found["examples"]} == {"physical therapy"}
    assert {each["section"] for each in found["sections_alone"]} >= {"PLAN", "LABS"}


def test_a_text_is_weighed_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(folder, "--text", NOTE, "--sections", "rules") == 0
    shown = capsys.readouterr().out
    assert "2 short forms, 2 sections" in shown
    assert "do short, topical sections get more weight?" in shown
    assert "LABORATORY DATA: clotting [PT]" in shown or "LABS: clotting [PT]" in shown


def test_notes_of_a_file_are_weighed_without_showing_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "notes.jsonl", [{"id": f"n/{number}", "text": NOTE} for number in range(3)])
    assert gate(folder, str(tmp_path / "notes.jsonl"), "--examples", "0") == 0
    shown = capsys.readouterr().out
    assert "6 short forms" in shown
    assert "stairs" not in shown
    assert "clotting" not in shown


def test_a_figure_is_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    dataset = str(folder / "dataset.jsonl")
    assert gate(folder, "--dataset", dataset, "--output", str(tmp_path / "gate.svg")) == 0
    assert "PLAN" in (tmp_path / "gate.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_an_inventory_says_which_examples_are_meant(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_inventory(INVENTORY.remove("MS"), tmp_path / "pt.csv")
    dataset = str(folder / "dataset.jsonl")
    assert gate(folder, "--dataset", dataset, "--inventory", str(tmp_path / "pt.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"]["n"] == 5


def test_terminals_are_not_steered_by_notes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(folder, "--text", "PLAN: \x1b[31mgait PT stairs") == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of: NOTES, --dataset DATASET, --text TEXT"),
        (["--text", "PT", "--dataset", "x"], "give one of"),
        (["--text", "secret words"], "no short form of the inventory was found"),
        (["--dataset", "missing.jsonl"], "missing.jsonl"),
        (["--text", "PT", "--output", "gate.xls"], "'.xls'"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert_refused(gate(folder, *arguments), capsys, command="inspect", message=message)


def test_a_model_without_metadata_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(gate(folder, "--text", "PT", kind="bsg"), capsys, command="inspect", message="kind 'bsg'")
