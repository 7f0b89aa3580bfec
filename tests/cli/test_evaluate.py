"""`lmcells evaluate`, as it is typed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expansion.clinic import CLOTTING, INVENTORY, THERAPY, UNHEARD, WORDS_OF, clinic_corpus, random_model
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.expansion import save_inventory

Evaluate = Callable[..., int]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_model(tmp_path_factory.mktemp("model") / "lmc", corpus, "lmc").folder)


def examples(n: int = 30, *, source: str = "clinic", first: int = 100) -> list[Example]:
    draw = np.random.default_rng(0)
    made = []
    for index in range(n):
        header, sense = (("PLAN", THERAPY), ("Labs:", CLOTTING))[index % 3 == 0]
        text = " ".join([*draw.choice(WORDS_OF[header.upper().strip(":")], 3), "PT", "secretly"])
        start = text.index("PT")
        note = f"{source}/{first + index // 2}"
        made.append(Example(f"e{index}", text, start, start + 2, "PT", header, sense.long_form, note))
    return made


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    def run(*arguments: str, given: list[Example] | None = None, inventory: Any = INVENTORY) -> int:
        write_dataset(tmp_path / "d.jsonl", examples() if given is None else given)
        save_inventory(inventory, tmp_path / "inventory.json")
        paths = ["--dataset", str(tmp_path / "d.jsonl"), "--inventory", str(tmp_path / "inventory.json")]
        return main(["evaluate", *arguments, *paths])

    return run


def test_models_are_compared_in_a_table(
    evaluate: Evaluate, model: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(model, "random", "dominant", "section-mle", "--corpus", str(corpus.folder)) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "30 examples, 1 short forms" in lines[0]
    for title in ("accuracy", "weighted F1", "macro F1", "NLL", "acc@2", "parameters"):
        assert title in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == [model, "random", "dominant", "section-mle"]
    assert "0.667 [" in lines[4]
    assert "1.000 [" in lines[5]
    assert len({len(line) for line in lines[1:6]}) == 1
    assert "exact 30" in printed
    assert printed.count("leakage: none of 15 test notes is in the corpus") == 1
    assert "secretly" not in printed


def test_results_for_machines_have_the_fields_of_the_contract(
    evaluate: Evaluate, model: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = INVENTORY.add(UNHEARD)
    assert evaluate(model, "random", "--json", "--corpus", str(corpus.folder), inventory=inventory) == 0
    output = capsys.readouterr().out
    results = json.loads(output)
    assert [result["model"] for result in results] == [model, "random"]
    contract = {"model", "n", "accuracy", "weighted_f1", "macro_f1", "nll", "accuracy_at_k", "excluded"}
    for result in results:
        assert contract < result.keys()
        assert result["n"] == 30
        assert result["intervals"]["macro_f1"]["level"] == 0.95
        assert result["leakage"]["n_leaked_notes"] == 0
    assert results[0]["excluded"] == [
        {
            "short_form": "PT",
            "long_form": "xylophone",
            "reason": "no known word",
            "n_examples": 0,
            "kept": True,
        }
    ]
    assert results[0]["n_parameters"] > 0
    assert results[0]["section_mapping"] == {"exact": 30}
    assert results[1]["excluded"] == []
    assert results[1]["n_parameters"] is None
    assert "secretly" not in output


def test_one_seed_gives_one_result(evaluate: Evaluate, capsys: pytest.CaptureFixture[str]) -> None:
    def accuracy(seed: str) -> Any:
        assert evaluate("random", "--json", "--seed", seed) == 0
        result = json.loads(capsys.readouterr().out)[0]
        return result["accuracy"], result["intervals"]

    assert accuracy("1") == accuracy("1")
    assert accuracy("1") != accuracy("2")


def test_leaked_notes_are_listed(
    evaluate: Evaluate, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    given = examples(first=0)
    assert evaluate("random", "--corpus", str(corpus.folder), "--json", given=given) == 0
    leakage = json.loads(capsys.readouterr().out)[0]["leakage"]
    assert leakage["n_leaked_notes"] == 15
    assert leakage["leaked_notes"][0] == "clinic/0"
    assert evaluate("random", "--corpus", str(corpus.folder), given=given) == 0
    assert "LEAKAGE: 15 of 15 test notes, with 30 examples" in capsys.readouterr().out


def test_a_leakage_check_that_can_match_nothing_is_an_error_unless_it_is_waived(
    evaluate: Evaluate, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = examples(source="casi")
    assert evaluate("random", "--corpus", str(corpus.folder), given=foreign) == 2
    assert "can match nothing" in capsys.readouterr().err
    assert (
        evaluate("random", "--corpus", str(corpus.folder), "--no-leakage-check", "--json", given=foreign) == 0
    )
    assert json.loads(capsys.readouterr().out)[0]["leakage"] is None


def test_nothing_is_said_of_the_leakage_of_a_model_that_was_trained_on_another_corpus(
    evaluate: Evaluate, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = clinic_corpus(tmp_path / "other", n_notes=12, seed=5)
    bsg = random_model(tmp_path / "bsg", other, "bsg").folder
    assert evaluate(str(bsg), "random", "--corpus", str(corpus.folder), "--json") == 0
    printed = capsys.readouterr()
    of_model, of_chance = (result["leakage"] for result in json.loads(printed.out))
    assert of_model is None
    assert of_chance is not None
    assert "trained on another corpus" in printed.err


def test_a_section_map_decides_first(
    evaluate: Evaluate, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map.csv").write_text("foreign,known\nLabs:,PLAN\n")
    assert evaluate(model, "--section-map", str(tmp_path / "map.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["section_mapping"] == {"manual": 10, "exact": 20}


def test_examples_that_the_inventory_does_not_have_are_reported(
    evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = [
        Example("x", "XY", 0, 2, "XY", None, "unknown", "n/1"),
        Example("y", "PT", 0, 2, "PT", None, "part time", "n/2"),
    ]
    assert evaluate("random", given=[*examples(), *strange]) == 0
    printed = capsys.readouterr().out
    assert "30 examples" in printed
    assert "left out, short form is not in the inventory: 1 senses, 1 examples" in printed
    assert "left out, long form is not a candidate of its short form: 1 senses, 1 examples" in printed


def test_broken_rows_are_counted_and_the_rest_is_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path / "d.jsonl", examples())
    with (tmp_path / "d.jsonl").open("a") as file:
        file.write("not json\n")
    save_inventory(INVENTORY, tmp_path / "i.json")
    arguments = ["--dataset", str(tmp_path / "d.jsonl"), "--inventory", str(tmp_path / "i.json")]
    assert main(["evaluate", "random", *arguments]) == 0
    printed = capsys.readouterr()
    assert "30 examples" in printed.out
    assert "1 rows skipped: not JSON" in printed.err


def test_examples_of_one_note_have_no_interval(
    evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate("random", "--json", given=examples(2)) == 0
    assert json.loads(capsys.readouterr().out)[0]["intervals"] == {}


def test_the_report_holds_the_results(
    evaluate: Evaluate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate("random", "dominant", "--json", "--output", str(tmp_path / "new" / "report")) == 0
    results = json.loads((tmp_path / "new" / "report" / "results.json").read_text())
    assert results == json.loads(capsys.readouterr().out)
    assert evaluate("random", "--output", str(tmp_path / "new" / "report")) == 2
    assert "exists already. Choose another, or replace it with --overwrite" in capsys.readouterr().err
    assert json.loads((tmp_path / "new" / "report" / "results.json").read_text()) == results


def test_one_model_under_two_names_is_refused(
    evaluate: Evaluate, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    again = f"{model}/../{Path(model).name}/"
    assert evaluate(model, again) == 2
    assert capsys.readouterr().err == (
        f"lmcells evaluate: MODEL: {again!r} is given twice, also as {model!r}. Give each model once.\n"
    )


def test_a_report_that_could_not_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    absent = ["--dataset", str(tmp_path / "absent"), "--inventory", str(tmp_path / "absent")]
    assert main(["evaluate", "random", *absent, "--output", str(tmp_path / "report")]) == 2
    assert "pip install 'lmcells[report]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "allowed: a model folder, default, random"),
        (["random", "random"], "given twice"),
        (["random", "--seed", "-1"], "--seed: found -1"),
        (["random", "--corpus", "absent"], "absent does not exist"),
        (["random", "--section-map", "absent"], "section map absent cannot be read"),
        (["section-mle"], "--corpus CORPUS"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    evaluate: Evaluate, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("absent", ["--dataset", "--inventory"])
def test_a_file_that_is_not_there_is_one_line_and_exit_code_2(
    tmp_path: Path, absent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path / "d.jsonl", examples())
    save_inventory(INVENTORY, tmp_path / "i.json")
    paths = {"--dataset": str(tmp_path / "d.jsonl"), "--inventory": str(tmp_path / "i.json")}
    paths[absent] = str(tmp_path / "absent")
    assert main(["evaluate", "random", *(part for pair in paths.items() for part in pair)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_dataset_of_other_short_forms_is_refused(
    evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate("random", given=[Example("x", "XY", 0, 2, "XY", None, "unknown", "n/1")]) == 2
    assert "no example is left to evaluate" in capsys.readouterr().err


def test_a_calibration_is_fitted_into_the_model_folder_and_checked_without_changing_it(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = random_model(tmp_path / "lmc", corpus, "lmc").folder
    write_dataset(tmp_path / "d.jsonl", examples(120))
    save_inventory(INVENTORY, tmp_path / "i.json")
    arguments = [str(folder), "--dataset", str(tmp_path / "d.jsonl"), "--inventory", str(tmp_path / "i.json")]
    assert main(["calibrate", *arguments, "--precision", "0.6", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    saved = (folder / "calibration.json").read_text()
    assert json.loads(saved).items() < fitted.items()
    assert fitted["n"] == 120
    assert main(["calibrate", *arguments, "--check"]) == 0
    assert f"temperature        {fitted['temperature']:.4f}" in capsys.readouterr().out
    assert (folder / "calibration.json").read_text() == saved
    assert main(["calibrate", *arguments, "--precision", "1"]) == 2
    assert "--precision: found 1.0, allowed: above 0 and below 1" in capsys.readouterr().err
