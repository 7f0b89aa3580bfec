"""`lmcells evaluate` and `lmcells calibrate`, as they are typed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.reproduce.small_protocol import draw_nothing
from expansion.clinic import CLOTTING, INVENTORY, THERAPY, UNHEARD, WORDS_OF, clinic_corpus, random_model
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.expansion import save_inventory

Run = Callable[..., tuple[str, str]]  # arguments -> what is printed, on standard output and as error
STRANGE = Example("x", "XY", 0, 2, "XY", None, "unknown", "n/1")


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
        header, sense = (("PLAN", THERAPY), ("Labs", CLOTTING))[index % 3 == 0]
        text = " ".join([*draw.choice(WORDS_OF[header.upper()], 3), "PT", "secretly"])
        start = text.index("PT")
        note = f"{source}/{first + index // 2}"
        made.append(Example(f"e{index}", text, start, start + 2, "PT", header, sense.long_form, note))
    return made


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on examples and an inventory; an error must be one line, and no text may be printed."""

    def run(
        *arguments: object,
        command: str = "evaluate",
        given: list[Example] | None = None,
        inventory: Any = INVENTORY,
        code: int = 0,
    ) -> tuple[str, str]:
        write_dataset(tmp_path / "d.jsonl", examples() if given is None else given)
        save_inventory(inventory, tmp_path / "i.json")
        paths = ["--dataset", str(tmp_path / "d.jsonl"), "--inventory", str(tmp_path / "i.json")]
        assert main([command, *paths, *map(str, arguments)]) == code
        out, err = capsys.readouterr()
        assert "secretly" not in out + err
        assert code == 0 or err.count("\n") == 1
        return out, err

    return run


def test_models_are_compared_in_a_table(run: Run, model: str, corpus: Corpus) -> None:
    printed, _ = run(model, "random", "dominant", "section-mle", "--corpus", corpus.folder)
    lines = printed.splitlines()
    assert "30 examples, 1 short forms" in lines[0]
    for title in ("accuracy", "weighted F1", "macro F1", "NLL", "acc@2", "parameters"):
        assert title in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == [model, "random", "dominant", "section-mle"]
    assert "0.667 [" in lines[4]
    assert "1.000 [" in lines[5]
    assert len({len(line) for line in lines[1:6]}) == 1
    assert "as written 30" in printed
    assert printed.count("leakage: none of 15 test notes is in the corpus") == 1


def test_a_model_folder_needs_no_shipped_model(
    run: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmcells.pretrained.__file__", str(tmp_path / "__init__.py"))
    assert model in run(model)[0]
    assert "this build comes without a model" in run("default", code=2)[1]


def test_results_for_machines_have_the_fields_of_the_contract(run: Run, model: str, corpus: Corpus) -> None:
    output, _ = run(model, "random", "--json", "--corpus", corpus.folder, inventory=INVENTORY.add(UNHEARD))
    results = json.loads(output)
    assert [result["model"] for result in results] == [model, "random"]
    contract = {"model", "n", "accuracy", "weighted_f1", "macro_f1", "nll", "accuracy_at_k", "excluded"}
    for result in results:
        assert contract < result.keys()
        assert result["n"] == 30
        assert result["intervals"]["macro_f1"]["level"] == 0.95
        assert result["leakage"]["n_leaked_notes"] == 0
    names = ("short_form", "long_form", "reason", "n_examples", "kept")
    unheard = dict(zip(names, ("PT", "xylophone", "no known word", 0, True), strict=True))
    assert [result["excluded"] for result in results] == [[unheard], []]
    assert results[0]["n_parameters"] > 0
    assert results[0]["section_mapping"] == {"as written": 30}
    assert results[1]["n_parameters"] is None


def test_one_seed_gives_one_result(run: Run) -> None:
    once, again, other = (json.loads(run("random", "--json", "--seed", seed)[0])[0] for seed in (1, 1, 2))
    assert (once["accuracy"], once["intervals"]) == (again["accuracy"], again["intervals"])
    assert (once["accuracy"], once["intervals"]) != (other["accuracy"], other["intervals"])


def test_leaked_notes_are_listed(run: Run, corpus: Corpus) -> None:
    arguments = ("random", "--corpus", corpus.folder)
    leakage = json.loads(run(*arguments, "--json", given=examples(first=0))[0])[0]["leakage"]
    assert leakage["n_leaked_notes"] == 15
    assert leakage["leaked_notes"][0] == "clinic/0"
    printed, _ = run(*arguments, given=examples(first=0))
    assert "LEAKAGE: 15 of 15 test notes, with 30 examples" in printed


def test_a_leakage_check_that_can_match_nothing_is_an_error_unless_it_is_waived(
    run: Run, corpus: Corpus
) -> None:
    arguments, foreign = ("random", "--corpus", corpus.folder), examples(source="casi")
    assert "cannot match any note" in run(*arguments, given=foreign, code=2)[1]
    assert json.loads(run(*arguments, "--no-leakage-check", "--json", given=foreign)[0])[0]["leakage"] is None


def test_nothing_is_said_of_the_leakage_of_a_model_that_was_trained_on_another_corpus(
    run: Run, corpus: Corpus, tmp_path: Path
) -> None:
    other = clinic_corpus(tmp_path / "other", n_notes=12, seed=5)
    bsg = random_model(tmp_path / "bsg", other, "bsg").folder
    printed, warned = run(bsg, "random", "--corpus", corpus.folder, "--json")
    of_model, of_chance = (result["leakage"] for result in json.loads(printed))
    assert of_model is None
    assert of_chance is not None
    assert "trained on another corpus" in warned


def test_a_section_map_decides_first(run: Run, model: str, tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text("foreign,known\nLabs:,PLAN\n")
    printed, _ = run(model, "--section-map", tmp_path / "map.csv", "--json")
    assert json.loads(printed)[0]["section_mapping"] == {"mapped": 10, "as written": 20}


def test_examples_that_the_inventory_does_not_have_are_reported(run: Run) -> None:
    part_time = Example("y", "PT", 0, 2, "PT", None, "part time", "n/2")
    printed, _ = run("random", given=[*examples(), STRANGE, part_time])
    assert "30 examples" in printed
    assert "left out, short form is not in the inventory: 1 senses, 1 examples" in printed
    assert "left out, long form is not a candidate of its short form: 1 senses, 1 examples" in printed


def test_broken_rows_are_counted_and_the_rest_is_evaluated(run: Run, tmp_path: Path) -> None:
    write_dataset(tmp_path / "broken.jsonl", examples())
    with (tmp_path / "broken.jsonl").open("a") as file:
        file.write("not json\n")
    printed, warned = run("random", "--dataset", tmp_path / "broken.jsonl")
    assert "30 examples" in printed
    assert "1 rows skipped: not JSON" in warned


def test_examples_of_one_note_have_no_interval(run: Run) -> None:
    assert json.loads(run("random", "--json", given=examples(2))[0])[0]["intervals"] == {}


def test_the_report_holds_the_results(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    folder = tmp_path / "new" / "report"
    printed, _ = run("random", "dominant", "--json", "--output", folder)
    results = json.loads((folder / "results.json").read_text())
    assert results == json.loads(printed)
    _, error = run("random", "--output", folder, code=2)
    assert "already exists. Choose another, or replace it with --overwrite" in error
    assert json.loads((folder / "results.json").read_text()) == results


def test_one_model_under_two_names_is_refused(run: Run, model: str) -> None:
    again = f"{model}/../{Path(model).name}/"
    assert run(model, again, code=2)[1] == (
        f"lmcells evaluate: MODEL: {again!r} is given twice, also as {model!r}. Give each model once.\n"
    )


def test_a_report_that_could_not_be_written_is_refused_before_anything_is_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _, error = run("random", "--dataset", "absent", "--output", tmp_path / "report", code=2)
    assert "pip install 'lmcells[report]'" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "allowed: a model folder, default, random"),
        (["random", "random"], "given twice"),
        (["random", "--seed", "-1"], "--seed: found -1"),
        (["random", "--corpus", "absent"], "absent does not exist"),
        (["random", "--section-map", "absent"], "section map absent cannot be read"),
        (["random", "--dataset", "absent"], "absent"),
        (["random", "--inventory", "absent"], "absent"),
        (["section-mle"], "--corpus CORPUS"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    assert message in run(*arguments, code=2)[1]


@pytest.mark.parametrize("flag", ["--resume", "--take-out-senses", "--errors=e.jsonl", "--outcomes=o.jsonl"])
def test_options_for_notes_are_refused_for_a_dataset(run: Run, flag: str) -> None:
    assert run("random", flag, code=2)[1].endswith(
        f"{flag.partition('=')[0]} is only for --notes. Leave it out.\n"
    )


def test_options_for_a_dataset_are_refused_for_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "kept").touch()
    for flag in ("--resume", "--overwrite"):
        given = ["--notes", "n.jsonl", "--output", str(tmp_path / "report"), flag]
        assert main(["evaluate", "default", *given]) == 2
        assert capsys.readouterr().err.endswith("--output is only for --dataset. Leave it out.\n")


def test_a_dataset_of_other_short_forms_is_refused(run: Run) -> None:
    assert "no example is left to evaluate" in run("random", given=[STRANGE], code=2)[1]


def test_the_shipped_model_is_not_calibrated(run: Run) -> None:
    assert "Calibrate a copy of its folder" in run("default", command="calibrate", code=2)[1]


def test_a_calibration_is_fitted_into_the_model_folder_and_checked_without_changing_it(
    run: Run, corpus: Corpus, tmp_path: Path
) -> None:
    folder = random_model(tmp_path / "lmc", corpus, "lmc").folder

    def calibrate(*arguments: object, code: int = 0) -> tuple[str, str]:
        return run(folder, *arguments, command="calibrate", given=examples(120), code=code)

    fitted = json.loads(calibrate("--precision", "0.6", "--json")[0])
    saved = (folder / "calibration.json").read_text()
    assert json.loads(saved).items() < fitted.items()
    assert fitted["n"] == 120
    assert ["temperature", f"{fitted['temperature']:.4f}"] in map(
        str.split, calibrate("--check")[0].splitlines()
    )
    assert (folder / "calibration.json").read_text() == saved
    _, error = calibrate("--precision", "1", code=2)
    assert "--precision: found 1.0, allowed: above 0 and below 1" in error
