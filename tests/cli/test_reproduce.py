"""`lmcells reproduce`, as it is typed: the whole protocol on invented notes."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.reproduce.small_protocol import TINY_ELMO, changed, draw_nothing, write_notes, write_protocol
from evaluation.tiny_checkpoint import write_checkpoint
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.reproduce import Step, execution
from lmcells.files import locked

pytest.importorskip("matplotlib")
SOURCE = Path(__file__).parents[2] / "src"
WHOLE = f"""
[[model]]
name = "elmo"
kind = "elmo"
seeds = [0]
training.epochs = 2
{TINY_ELMO}
[[model]]
name = "encoder"
kind = "encoder"
folder = "checkpoint"
[[model]]
name = "chance"
kind = "random"
[[model]]
name = "dominant"
kind = "dominant"
[[model]]
name = "section-mle"
kind = "section-mle"
"""
OTHERS = """
[[dataset]]
name = "other"
kind = "reverse"
notes = ["other.jsonl"]
inventory = "senses.json"
leakage_check = false
title = "Other <notes>"
[curve]
points = 2
chooses = true
[selection]
model = "lmc"
dataset = "reverse"
seeds = [0]
[[selection.setting]]
name = "narrow"
model.window = 1
training.smoothing = 0.0
[leakage]
model = "lmc"
dataset = "reverse"
seeds = [1]
"""


def reproduce(config: Path, *arguments: str) -> int:
    out = config.parent / "out"
    return main(["reproduce", "--config", str(config), "--output", str(out), "--device", "cpu", *arguments])


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    """A pool of processes is slow for forty notes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0})
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A protocol with everything, done."""
    folder = tmp_path_factory.mktemp("whole")
    config = write_protocol(folder, epochs=2, models=WHOLE, others=OTHERS)
    write_notes(folder / "other.jsonl", source="other", n_notes=8, seed=2)
    write_checkpoint(folder / "checkpoint")
    names = ("dataset", "corpus", "train/lmc-0", "evaluate/reverse/chance-0")
    assert reproduce(config, *(f"--only={name}" for name in names), "--jobs", "2") == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "_start", in_this_process)
        draw_nothing(patch)
        assert reproduce(config) == 0
    return config


def in_this_process(step: Step, log: Path, **_: Any) -> execution._Child:
    """Do what a child would do, without importing torch again."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    done: Any = SimpleNamespace(returncode=main(list(step.command[3:])), poll=lambda: 0)
    return execution._Child(step.name, done, log, time.monotonic())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A protocol of one run, whose dataset and corpus are done."""
    config = write_protocol(tmp_path_factory.mktemp("prepared"))
    changed(config, "seeds = [0, 1]", "seeds = [0]")
    assert reproduce(config, "--only", "dataset", "--only", "corpus") == 0
    return config


def copied(config: Path, folder: Path) -> Path:
    return shutil.copytree(config.parent, folder) / config.name


def states(config: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert reproduce(config, "--steps", "--json") == 0
    return {step["step"]: step["state"] for step in json.loads(capsys.readouterr().out)}


def rows_of(config: Path, dataset: str, table: str) -> list[dict[str, str]]:
    path = config.parent / "out" / "report" / dataset / "tables" / f"{table}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def result_of(config: Path, run: str) -> dict[str, Any]:
    path = config.parent / "out" / "evaluate" / "reverse" / f"{run}.result.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_every_step_is_done_and_none_is_done_twice(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(states(whole, capsys).values()) == {"done"}
    assert reproduce(whole) == 0
    assert capsys.readouterr().err == ""


def test_the_reports_show_all_models_with_all_their_runs(whole: Path) -> None:
    models = ["lmc", "elmo", "encoder", "chance", "dominant", "section-mle"]
    assert [row["model"] for row in rows_of(whole, "reverse", "headline")] == models
    runs = {row["model"]: row["n_seeds"] for row in rows_of(whole, "reverse", "seeds")}
    assert runs == dict(zip(models, "211212", strict=True))
    report = whole.parent / "out" / "report" / "reverse"
    page = (report / "report.html").read_text()
    for title in ("Beside the paper", "Choice of settings", "Test notes in and out of pre-training"):
        assert title in page
    assert "the best run in macro F1, as in the paper's appendix" in page.replace("&#39;", "'")
    assert {path.stem for path in (report / "tables").glob("*.tex")} == {
        *("main", "seeds", "cost", "ablation", "selection", "acronyms")
    }
    hours = {row["model"]: float(row["hours"]) for row in rows_of(whole, "reverse", "training_time")}
    assert hours.keys() == {"lmc", "elmo"}
    assert all(hour > 0 for hour in hours.values())


def test_a_setting_is_chosen_on_one_dataset_and_reported_on_the_other(whole: Path) -> None:
    here, there = rows_of(whole, "reverse", "selection"), rows_of(whole, "other", "selection")
    assert [row["setting"] for row in here] == ["lmc", "lmc@narrow"]
    assert [row["chosen"] for row in here] == [row["chosen"] for row in there]
    scores = {row["setting"]: float(row["macro_f1_there"]) for row in here}
    chosen = next(row["setting"] for row in here if row["chosen"] == "True")
    assert scores[chosen] == max(scores.values())
    validated = (point["evaluation"]["reverse"]["macro_f1"] for point in result_of(whole, "lmc-0")["curve"])
    assert scores["lmc"] == pytest.approx(max(validated))  # of the weights that are reported on the other
    assert all(row["macro_f1"] == "" for row in here)
    assert all(0 <= float(row["macro_f1"]) <= 1 for row in there)
    assert "lmc@narrow" not in {row["model"] for row in rows_of(whole, "reverse", "headline")}


def test_the_table_has_the_scores_of_the_weights_that_were_best_on_the_other_dataset(whole: Path) -> None:
    """So what is scored while training is exactly what the table scores."""
    for run in ("lmc-0", "lmc-1", "lmc@narrow-0", "lmc+leaky-1", "elmo-0"):
        curve = result_of(whole, run)["curve"]
        assert len(curve) >= 4  # two epochs, two points in each
        best = max(curve, key=lambda point: point["evaluation"]["other"]["macro_f1"])["evaluation"]["reverse"]
        found = result_of(whole, run)["metrics"]
        assert {name: found[name] for name in best} == (pytest.approx(best) if run == "elmo-0" else best)
    kept = whole.parent / "out" / "train" / "lmc@narrow-0.training" / "best" / "reverse" / "config.json"
    assert (
        json.loads(kept.read_text())["training"]["settings"]["smoothing"] == 0
    )  # which p(m | long form) needs
    folder = whole.parent / "out" / "train" / "lmc-1.training"
    assert {path.name for path in (folder / "best").iterdir()} == {
        "reverse",
        "other",
        "reverse.json",
        "other.json",
    }


def test_hours_of_a_run_that_shared_the_machine_are_left_out(whole: Path, tmp_path: Path) -> None:
    config = copied(whole, tmp_path / "copy")
    folder = config.parent / "out" / "steps" / "train"
    assert not json.loads((folder / "lmc-0.json").read_text())["alone"]  # a baseline was scored meanwhile
    for name in ("lmc-1", "elmo-0"):
        changed(folder / f"{name}.json", '"alone": true', '"alone": false')
    assert reproduce(changed(config, "rounds = 20", "rounds = 21"), "--only", "report/reverse") == 0
    assert {row["hours_to_peak"] for row in rows_of(config, "reverse", "headline")} == {""}
    assert rows_of(config, "reverse", "training_time") == []


def test_the_ablation_compares_the_same_seed_with_and_without_the_test_notes(whole: Path) -> None:
    row = next(row for row in rows_of(whole, "reverse", "ablation") if row["metric"] == "macro_f1")
    assert float(row["with_test_notes"]) == result_of(whole, "lmc+leaky-1")["metrics"]["macro_f1"]
    assert float(row["without_test_notes"]) == result_of(whole, "lmc-1")["metrics"]["macro_f1"]
    assert result_of(whole, "lmc+leaky-1")["leakage"]["n_leaked_notes"] == 12
    assert result_of(whole, "lmc-1")["leakage"]["n_leaked_notes"] == 0
    assert rows_of(whole, "other", "ablation") == []


def test_the_overview_has_a_table_a_dataset_with_the_papers_numbers_beside_ours(whole: Path) -> None:
    report = whole.parent / "out" / "report"
    table = (report / "results.md").read_text().splitlines()
    assert table[0] == "### reverse"
    assert table[2].startswith("| model | runs | accuracy | weighted F1 | macro F1 | NLL | param")
    lmc = next(line for line in table if line.startswith("| lmc |"))
    assert ".74 / .78 / .69 / .81 | .71 / .73 / .51 / .79 |" in lmc
    assert " to " in lmc
    assert len({line.count("|") for line in table[2:10]}) == 1
    oracle = next(line for line in table if line.startswith("| dominant (oracle) |"))
    assert "**" not in oracle
    assert "### Other <notes>" in table
    page = (report / "index.html").read_text()
    assert "Other &lt;notes&gt;" in page
    titles = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert titles[2:6] == ["Accuracy", "Weighted F1", "Macro F1", "NLL"]
    assert titles[8:10] == ["The paper&#39;s MIMIC", "The paper&#39;s CASI"]
    assert 'href="other/report.html"' in page


def test_a_changed_setting_is_done_again_with_what_depends_on_it(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = copied(whole, tmp_path / "copy")
    changed(config, 'name = "elmo"', 'name = "elmo"\ntraining.gradient_clip = 7.0')
    before = states(config, capsys)
    assert {name for name, state in before.items() if state != "done"} == {
        *("train/elmo-0", "evaluate/reverse/elmo-0", "evaluate/other/elmo-0"),
        *("report/reverse", "report/other", "report/overview"),
    }
    assert reproduce(config, "--steps") == 0
    assert "to do: changed: training.gradient_clip" in capsys.readouterr().out
    config = changed(config, "training.gradient_clip = 7.0", "")
    assert set(states(config, capsys).values()) == {"done"}
    config = changed(config, "rounds = 20", "rounds = 21")
    after = states(config, capsys)
    assert {name for name, state in after.items() if state != "done"} == {"report/reverse", "report/other"}


def test_training_killed_in_the_middle_goes_on_and_ends_as_if_nothing_had_happened(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = 'preset = "paper"\ntraining.checkpoint_minutes = 0.005'
    broken, unbroken = (copied(prepared, tmp_path / name) for name in ("broken", "unbroken"))
    for config in (broken, unbroken):
        changed(changed(config, 'preset = "paper"', longer), "epochs = 1", "epochs = 8")
    command = [sys.executable, "-m", "lmcells", "reproduce", "--config", str(broken), "--device", "cpu"]
    command += ["--output", str(broken.parent / "out"), "--only", "train"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    trained = broken.parent / "out" / "train"
    until = time.monotonic() + 300
    while not list((trained / "lmc-0.training" / "checkpoints").glob("*.json")):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (trained / "lmc-0").exists()
    monkeypatch.setattr(execution, "_start", in_this_process)
    for config in (broken, unbroken):  # the first waits for the child that was left behind
        assert reproduce(config, "--only", "train") == 0
    weights = [each.parent / "out" / "train" / "lmc-0" / "model.safetensors" for each in (broken, unbroken)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    logged = (trained / "lmc-0.training" / "metrics.jsonl").read_text().splitlines()
    numbers = [json.loads(line)["step"] for line in logged]
    assert numbers == sorted(numbers)


def test_a_machine_with_torch_and_numpy_alone_does_what_it_can_from_the_packed_corpus(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not there on a bare GPU machine is made unimportable; of the notes only the packed corpus is taken."""
    config, there = copied(prepared, tmp_path / "here"), tmp_path / "there"
    (there / "out").mkdir(parents=True)
    shutil.copy(config, there)
    for name in ("corpus.packed", "datasets", "steps"):
        path = config.parent / "out" / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, there / "out" / name)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(
        "import sys\n"
        "for name in ('pyarrow', 'matplotlib', 'jinja2', 'transformers', 'sklearn', 'tensorboard', 'scipy'):\n"
        "    sys.modules[name] = None\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'bare'}{os.pathsep}{SOURCE}"}
    command = [sys.executable, "-m", "lmcells", "reproduce", "--config", str(there / "protocol.toml")]
    command += ["--output", str(there / "out"), "--device", "cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "train/lmc-0: done in" in done.stderr
    assert "evaluate/reverse/lmc-0: done in" in done.stderr
    assert (
        "report/reverse: Writing a report needs matplotlib, which is not installed. "
        "Run: pip install 'lmcells[report]'\n" in done.stderr
    )
    assert "Traceback" not in done.stderr
    for name in ("steps", "evaluate"):
        shutil.copytree(there / "out" / name, config.parent / "out" / name, dirs_exist_ok=True)
    capsys.readouterr()
    assert reproduce(config, *(f"--only={name}" for name in ("train", "evaluate", "*/overview"))) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" in ")[0] for line in said] == ["report/overview: done"]


def test_training_text_that_is_missing_is_said_once_and_the_flag_finds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMCELLS_DATA", "")  # and back to what it was before, when --data has set it
    config = write_protocol(tmp_path / "configs")
    changed(config, '["train.jsonl", "dev.jsonl"]', '["${LMCELLS_DATA}/train.jsonl"]')
    missing = "cannot run: the variable LMCELLS_DATA is not set. "
    assert reproduce(config, "--steps") == 0
    listed = capsys.readouterr().out
    assert listed.count(missing) == 1
    assert "docs/data.md describes it. Give --data FOLDER" in listed
    assert reproduce(config) == 2
    error = capsys.readouterr().err
    assert "dataset/reverse: done" in error
    assert f"corpus/main: {missing}" in error
    (tmp_path / "text").mkdir()
    notes = (write_notes(tmp_path / "n", source="clinic", n_notes=10), config.parent / "dev.jsonl")
    (tmp_path / "text" / "train.jsonl").write_bytes(b"".join(path.read_bytes() for path in notes))
    assert reproduce(config, "--data", str(tmp_path / "text"), "--only", "dataset", "--only", "corpus") == 0
    trained = set(Corpus.open(config.parent / "out" / "corpus").metadata_names("document"))
    assert trained == {f"train/clinic/{number}" for number in range(10)}  # those of the dataset are left out


def test_a_training_that_fails_is_told_in_one_line_with_its_log(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = copied(prepared, tmp_path / "copy")
    changed(config, 'preset = "paper"', 'preset = "paper"\ntraining.metadata = "colour"')
    assert reproduce(config) == 2
    error = capsys.readouterr().err
    assert "has no metadata 'colour'" in error
    assert "lmc-0.log)" in error
    assert "evaluate/reverse/lmc-0: waits: for train/lmc-0" in error
    assert error.splitlines()[-1].startswith("lmcells reproduce: ")


def test_a_second_one_in_the_same_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_LOCK_SECONDS", 0.0)
    config = write_protocol(tmp_path)
    with locked(tmp_path / "out", by="this test"):
        assert reproduce(config) == 2
    assert "is being worked on by another `lmcells reproduce`" in capsys.readouterr().err


def test_time_that_is_up_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_protocol(tmp_path)
    assert reproduce(config, "--minutes", "1e-9") == 0
    assert "steps are left; run it again to continue." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs: found 0, allowed: 1 or more."),
        (["--minutes", "0"], "--minutes: found 0, allowed: above 0."),
        (["--only", "evalute"], "--only: 'evalute' matches no step"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(write_protocol(tmp_path), *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
