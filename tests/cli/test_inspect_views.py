"""`lmcells inspect gate`, `interpolate`, `mixtures`, `vectors` and `uncertainty`, as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells.cli.main import BAD_INPUT, main
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.expansion import SenseInventory, save_inventory
from note_files import write_jsonl
from refusals import assert_refused

NOTE = "PLAN: gait and PT on stairs.\n\nLABS: clotting PT.\n"
MORE = {
    "gate": ["--inventory", "inventory.csv"],
    "interpolate": ["--inventory", "inventory.csv"],
    "mixtures": ["--samples", "100"],
    "vectors": [],
    "uncertainty": ["--inventory", "inventory.csv", "--resamples", "20"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, an inventory and a dataset."""
    folder = tmp_path_factory.mktemp("inspect")
    corpus = clinic_corpus(folder / "corpus")
    for kind in ("lmc", "bsg"):
        random_model(folder / kind, corpus, kind)
    save_inventory(INVENTORY, folder / "inventory.csv")
    save_inventory(SenseInventory.from_senses(INVENTORY.senses("PT")), folder / "pt.csv")
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


@pytest.fixture(autouse=True)
def _in_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)


def inspect(view: str, *arguments: str, kind: str = "lmc") -> int:
    return main(["inspect", view, "--model", kind, *MORE[view], *arguments])


def data_of(capsys: pytest.CaptureFixture[str], view: str, *arguments: str) -> Any:
    assert inspect(view, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_dataset_is_weighed(capsys: pytest.CaptureFixture[str]) -> None:
    found = data_of(capsys, "gate", "--dataset", "dataset.jsonl")
    assert found["summary"]["n"] == 6
    assert {each["section"]: each["n"] for each in found["summary"]["sections"]}["PLAN"] == 3
    weights = [each["weight"] for each in found["examples"]]
    assert len(weights) == 6
    assert weights == sorted(weights)
    assert {each["long_form"] for each in found["examples"]} == {"physical therapy"}
    assert {each["section"] for each in found["sections_alone"]} >= {"PLAN", "LABS"}


def test_an_inventory_says_which_examples_are_meant(capsys: pytest.CaptureFixture[str]) -> None:
    found = data_of(capsys, "gate", "--dataset", "dataset.jsonl", "--inventory", "pt.csv")
    assert found["summary"]["n"] == 5


def test_a_text_is_weighed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("gate", "--text", NOTE, "--sections", "rules") == 0
    shown = capsys.readouterr().out
    assert "2 short forms, 2 sections" in shown
    assert "do short, topical sections get more weight?" in shown
    assert "LABORATORY DATA: clotting [PT]" in shown or "LABS: clotting [PT]" in shown


def test_notes_of_a_file_are_weighed_without_showing_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "notes.jsonl", [{"id": f"n/{number}", "text": NOTE} for number in range(3)])
    assert inspect("gate", str(tmp_path / "notes.jsonl"), "--examples", "0") == 0
    shown = capsys.readouterr().out
    assert "6 short forms" in shown
    assert "stairs" not in shown
    assert "clotting" not in shown


def test_terminals_are_not_steered_by_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("gate", "--text", "PLAN: \x1b[31mgait PT stairs") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_interpolation_prints_a_table_for_each_section(capsys: pytest.CaptureFixture[str]) -> None:
    sections = ("--section", "plan", "--section", "LABS")
    assert inspect("interpolate", "PT", *sections, "--text", "gait PT stairs") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PT in PLAN, 2 words around it; the gate gives the section 0.")
    assert lines[1].split() == "weight of the section 0.00 0.20 0.40 0.60 0.80 1.00 learnt no section".split()
    assert sorted(line.split("  ")[1] for line in lines[2:4]) == ["physical therapy", "prothrombin time"]
    assert lines[4].startswith("PT in LABS")


def test_json_gives_every_step_of_an_interpolation(capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = data_of(capsys, "interpolate", "PT", "--section", "LABS", "--steps", "5")["paths"]
    assert path["weights"] == [0, 0.25, 0.5, 0.75, 1]
    assert path["n_words"] == 0
    by_step = zip(*(each["probabilities"] for each in path["long_forms"]), strict=True)
    assert [sum(step) for step in by_step] == [pytest.approx(1)] * 5


def test_long_forms_may_have_null_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("PT", "--section", "LABS", "--ranking", "divergence")
    assert data_of(capsys, "interpolate", *asked) != data_of(capsys, "interpolate", *asked, "--null-metadata")


def test_the_shipped_model_moves_mg_with_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    sections = ["--section", "DISCHARGE MEDICATIONS", "--section", "IMAGING"]
    assert main(["inspect", "interpolate", "MG", *sections, "--json"]) == 0
    medications, imaging = json.loads(capsys.readouterr().out)["paths"]
    assert (medications["section"], imaging["section"]) == ("DISCHARGE MEDICATIONS", "IMAGING")
    assert imaging["long_forms"][0]["long_form"] == "mammogram"
    assert medications["long_forms"] != imaging["long_forms"]


def test_words_and_phrases_are_described_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("mixtures", "PT", "gait", "mitral stenosis") == 0
    printed = capsys.readouterr().out
    assert "pt: 2 sections, counted on 80 of 80 occurrences" in printed
    assert "mitral stenosis: " in printed
    assert "KL(one || other) in nats, 100 draws" in printed
    assert "gait || mitral stenosis" in printed
    assert " ± " in printed


def test_one_word_has_nothing_to_be_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("mixtures", "pt", "PT", "--top", "0") == 0
    printed = capsys.readouterr().out
    assert "KL" not in printed
    assert "weight  variance" not in printed


def test_sections_are_mixtures_of_their_words(capsys: pytest.CaptureFixture[str]) -> None:
    printed = data_of(capsys, "mixtures", "--sections", "labs", "PLAN")
    assert [each["name"] for each in printed["marginals"]] == ["LABS", "PLAN"]
    assert {each["name"] for each in printed["marginals"][0]["components"]} > {"bleeding", "pt"}
    assert printed["divergences"][0]["from"] == "LABS"
    assert set(printed["divergences"][0]) == {"from", "to", "sampled", "matched", "variational", "convex"}
    assert len(printed["marginals"][0]["mean"]) == 6


def test_vectors_of_words_are_written_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = data_of(capsys, "vectors", "--output", str(tmp_path / "words.txt"))
    header, *lines = (tmp_path / "words.txt").read_text().splitlines()
    assert header == f"{printed['words']} {printed['dimensions']}" == f"{len(lines)} 6"
    assert (printed["format"], printed["left_out"]) == ("text", 0)
    assert any(line.startswith("bleeding ") for line in lines)


def test_sections_without_words_have_no_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("vectors", "--output", str(tmp_path / "sections.bin"), "--what", "sections") == 0
    assert "left out, no word counted  1" in capsys.readouterr().out
    assert (tmp_path / "sections.bin").read_bytes().startswith(b"2 6\n")


def test_a_model_without_sections_has_vectors_of_words(tmp_path: Path) -> None:
    assert inspect("vectors", "--output", str(tmp_path / "words.vec"), kind="bsg") == 0
    assert (tmp_path / "words.vec").read_text().splitlines()[0].endswith(" 6")


def test_words_are_listed_from_both_ends_and_correlations_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect("uncertainty", "PT", "--min-count", "1", "--top", "2", "--by", "total") == 0
    printed = capsys.readouterr().out
    assert "asked for:" in printed
    assert "largest variance total:" in printed
    assert "sections, frequency fixed" in printed
    (row,) = [line.split() for line in printed.splitlines() if line.split()[:1] == ["pt"]]
    assert row[1:4] == ["80", "2.0", "2"]


def test_uncertainty_has_words_and_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    printed = data_of(capsys, "uncertainty", "gait", "--min-count", "1", "--top", "3")
    assert printed["words"][0]["word"] == "gait"
    assert len(printed["most"]) == len(printed["least"]) == 3
    assert printed["most"][0]["within"] >= printed["most"][1]["within"]
    first = printed["associations"][0]
    assert (first["variance"], first["against"], first["given"]) == ("within", "frequency", None)
    assert first["rho"]["low"] <= first["rho"]["estimate"] <= first["rho"]["high"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gate", "--dataset", "dataset.jsonl"], "PLAN"),
        (["interpolate", "PT", "--section", "LABS"], "prothrombin time"),
        (["mixtures", "pt", "gait"], "KL(row || column)"),
        (["uncertainty", "pt", "--min-count", "1"], "Prior variance"),
    ],
)
def test_figures_are_written_over_old_ones(
    arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "figure.svg"
    output.write_text("old")
    assert inspect(*arguments, "--output", str(output), "--overwrite") == 0
    assert text in output.read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gate"], "give one of: NOTES, --dataset DATASET, --text TEXT"),
        (["gate", "--text", "PT", "--dataset", "x"], "give one of"),
        (["gate", "--text", "secret words"], "no short form of the inventory was found"),
        (["gate", "--dataset", "missing.jsonl"], "missing.jsonl"),
        (["gate", "--text", "PT", "--output", "gate.xls"], "'.xls'"),
        (["interpolate", "PTT", "--section", "LABS"], "Nearest: 'PT'"),
        (["interpolate", "PT", "--section", "LABZ"], "Nearest: LABS"),
        (["interpolate", "PT", "--section", "LABS", "--text", "secret words"], "does not contain 'PT'"),
        (["interpolate", "PT", "--section", "LABS", "--steps", "9999"], "found 9999, allowed: 2 to 1,001"),
        (["interpolate", "PT", "--section", "LABS", "--ranking", "masked-span"], "rank by divergence"),
        (["interpolate", "PT", "--section", "LABS", "--output", "pt"], "allowed: .svg, .pdf, .png"),
        (["mixtures", "gaitt"], "the model does not know the word 'gaitt'. Nearest: gait"),
        (["mixtures", "--sections", "LABZ"], "does not know the section 'LABZ'. Nearest: LABS"),
        (["mixtures", "--sections", "<no section>"], "no counts of the words under '<no section>'"),
        (["mixtures", "pt", "--output", "x.gif"], "found the extension '.gif'"),
        (["vectors", "--output", "v.csv"], "found the extension '.csv', allowed: .txt, .vec, .bin"),
        (["vectors", "--output", "none/v.txt"], "cannot be written: No such file"),
        (["uncertainty", "gaitt", "--min-count", "1"], "does not know the word 'gaitt'. Nearest: gait"),
        (["uncertainty", "--min-count", "500"], "0 words of the model were seen 500 times or more"),
        (["uncertainty", "valve", "--min-count", "30"], "'valve' was seen"),
        (["uncertainty", "--inventory", "none.csv"], "inventory none.csv cannot be read"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert_refused(inspect(*arguments), capsys, command="inspect", message=message)


@pytest.mark.parametrize(
    "arguments",
    [
        ["gate", "--text", "PT"],
        ["interpolate", "PT", "--section", "LABS"],
        ["vectors", "--output", "sections.vec", "--what", "sections"],
    ],
)
def test_a_model_without_metadata_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert_refused(inspect(*arguments, kind="bsg"), capsys, command="inspect", message="kind 'bsg'")


@pytest.mark.parametrize("option", ["--samples", "--top", "--seed"])
def test_numbers_out_of_range_are_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    for value in ("-3", "many"):
        with pytest.raises(SystemExit) as stop:
            main(["inspect", "mixtures", "pt", f"{option}={value}"])
        error = capsys.readouterr().err
        assert stop.value.code == BAD_INPUT
        assert f"argument {option}: found '{value}', allowed: a whole number of" in error
        assert error.count("\n") == 1
