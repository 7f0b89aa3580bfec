"""`lmcells train`, as it is typed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from lmcells.cli.main import main
from lmcells.cli.train_cells import progress_message
from lmcells.corpus import Corpus
from lmcells.evaluation.rankers import make_ranker
from lmcells.expansion import load_inventory
from lmcells.pretrained import PretrainedModel
from lmcells.training import Progress
from refusals import assert_refused
from training.small_runs import planted_corpus

SMALL = ("--set", "model.cell_dim=8", "--set", "model.embedding_dim=8", "--set", "model.hidden_dim=6")
CONSTANT_RATE = (
    "--set",
    "training.final_learning_rate=1",
)  # one that falls allows no other number of epochs later
QUICK = (*SMALL, *CONSTANT_RATE, "--set", "model.window=4", "--batch-size", "256", "--device", "cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    torch.set_num_threads(1)
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=40)


def train(corpus: Corpus, output: Path, *arguments: str) -> int:
    return main(["train", str(corpus.folder), "--output", str(output), *QUICK, *arguments])


@pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
def test_a_model_of_each_kind_is_trained_and_saved(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--kind", kind, "--epochs", "1", "--seed", "5", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == kind
    assert printed["centers"] > 0
    assert {"reconstruction", "prior_divergence", "contrastive"} < set(printed)
    config = json.loads((output / "config.json").read_text())
    assert config["seed"] == 5
    assert config["training"]["settings"]["epochs"] == 1
    assert config["training"]["corpus"] == corpus.manifest.fingerprint
    assert not (output / "checkpoints").exists()
    assert (tmp_path / "model.training" / "metrics.jsonl").is_file()


@pytest.mark.parametrize("kind", ["lmc", "bsg"])
def test_metadata_that_never_varies_is_one_line_of_warning_where_it_matters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    plain = corpus_of(tmp_path / "plain", ["slow gait and pain in the knee"] * 40)
    assert train(plain, tmp_path / "model", "--kind", kind, "--epochs", "1", "--preset", "paper") == 0
    warned = "has one value of 'section' only" in capsys.readouterr().err
    assert warned == (kind == "lmc")


def test_a_corpus_in_which_nothing_but_stop_words_comes_up_again_is_trained_on(tmp_path: Path) -> None:
    notes = [f"the word{at} of note{at}" for at in range(40)]
    corpus = corpus_of(tmp_path / "plain", notes, stop_words=True)
    assert train(corpus, tmp_path / "model", "--epochs", "1", "--preset", "default") == 0
    assert PretrainedModel.from_pretrained(tmp_path / "model").phrase_store is None


def test_a_finished_run_goes_on_for_more_epochs(corpus: Corpus, tmp_path: Path) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--epochs", "1") == 0
    assert train(corpus, output, "--epochs", "2", "--resume") == 0
    assert json.loads((output / "config.json").read_text())["training"]["settings"]["epochs"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", "0"), "epochs is 0"),
        (("--epochs", "few"), "epochs is 'few'"),
        (("--set", "training.epoch=3"), "Nearest: 'training.epochs'"),
        (("--metadata", "sectio"), "no metadata 'sectio'"),
        (("--config", "none.toml"), "none.toml does not exist"),
        (("--device", "tpu"), "device is 'tpu'"),
        (("--set", "training.precision=bf16"), "precision is 'bf16'"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert_refused(train(corpus, tmp_path / "model", *arguments), capsys, command="train", message=message)


def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path / "none"), "--output", str(tmp_path / "model")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_an_output_that_is_taken_is_refused_before_training(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    assert train(corpus, tmp_path) == 2
    assert "exists already" in capsys.readouterr().err
    assert train(corpus, tmp_path, "--resume") == 2
    assert "is not a model folder" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_one_line_of_warning(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--epochs", "2") == 0
    newest = max((tmp_path / "model.training" / "checkpoints").glob("*.json"))
    newest.write_text("{")
    capsys.readouterr()
    assert train(corpus, output, "--epochs", "2", "--resume") == 0
    assert capsys.readouterr().err == (
        f"lmcells train: {newest} is damaged: it is not JSON. Trying the checkpoint before it.\n"
    )


def test_the_progress_line_says_what_is_what() -> None:
    progress = Progress(
        step=1200, n_steps=3000, epoch=2, n_epochs=5, centers=10, centers_per_second=12345.6,
        reconstruction=7.25, prior_divergence=1.5, contrastive=None, gradient_norm=1.0, seconds=1.0,
        seconds_left=3725.2, peak_memory=2_500_000_000,
    )  # fmt: skip
    assert progress_message(progress) == (
        "epoch 2/5, step 1,200/3,000, 12,346 centers/s, reconstruction 7.250, prior divergence 1.500, "
        "1:02:05 left, 2.5 GB"
    )


def test_it_runs_with_torch_and_numpy_alone_and_stops_when_asked(corpus: Corpus, tmp_path: Path) -> None:
    """rich, pyarrow, safetensors and the like are made unimportable, as on a bare GPU machine."""
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text(
        "import sys\n"
        "for name in ('rich', 'pyarrow', 'safetensors', 'polars', 'tensorboard', 'pydantic'):\n"
        "    sys.modules[name] = None\n"
    )
    source = Path(__file__).parents[2] / "src"
    command = [
        sys.executable,
        "-m",
        "lmcells",
        "train",
        corpus.folder,
        "--output",
        tmp_path / "model",
        *QUICK,
    ]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--epochs", "100000"], env=environment, stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "model.training" / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors.count("\n") == 1
    assert "go on with --resume" in errors
    last = json.loads(metrics.read_text().splitlines()[-1])
    finished = subprocess.run(
        [*command, "--epochs", str(last["epoch"] + 1), "--resume"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "model" / "config.json").is_file()


@pytest.fixture
def scored(tmp_path: Path) -> list[str]:
    """`train` with a dataset of one example to be scored by, up to the settings."""
    corpus = corpus_of(
        tmp_path, [f"PLAN: PT with physical therapy exercises for pain {i}" for i in range(60)]
    )
    example = {
        "id": "e/1",
        "text": "PT with exercises",
        "start": 0,
        "end": 2,
        "short_form": "PT",
        "section": "PLAN",
    }
    (tmp_path / "dev.jsonl").write_text(
        json.dumps({**example, "long_form": "physical therapy", "note_id": "x/1"})
    )
    senses = [
        {"short_form": "PT", "long_form": name, "forms": [name]}
        for name in ("physical therapy", "pain therapy")
    ]
    (tmp_path / "senses.json").write_text(json.dumps(senses))
    return [
        *(
            "train",
            str(corpus.folder),
            "--output",
            str(tmp_path / "model"),
            "--epochs",
            "2",
            "--device",
            "cpu",
        ),
        *("--evaluate", str(tmp_path / "dev.jsonl"), "--inventory", str(tmp_path / "senses.json")),
    ]


def test_a_dataset_without_senses_is_refused(scored: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(scored[:-2]) == 2
    assert "--evaluate and --inventory go together" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind",
    [
        ("--kind", "lmc", "--preset", "paper"),
        ("--kind", "elmo", "--set", "language_model.width=16", "--set", "language_model.filters=[4, 4]"),
    ],
    ids=["lmc", "elmo"],
)
def test_hours_to_the_peak_of_the_scores_are_recorded_with_the_model(
    scored: list[str], tmp_path: Path, kind: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*scored, *kind, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    lines = (tmp_path / "model.training" / "metrics.jsonl").read_text().splitlines()
    scores = [line for line in map(json.loads, lines) if "evaluation" in line]
    assert len(scores) == 2
    assert set(scores[0]["evaluation"]["dev"]) == {"accuracy", "macro_f1", "nll"}
    best = max(scores, key=lambda line: line["evaluation"]["dev"]["macro_f1"])
    training = json.loads((tmp_path / "model" / "config.json").read_text())["training"]
    assert training["hours_to_peak"] == printed["hours_to_peak"] == best["hours"]
    assert training["peak"]["score"] == best["evaluation"]["dev"]["macro_f1"]
    assert training["hours"] == training["seconds"] / 3600 >= training["hours_to_peak"] > 0
    ranker = make_ranker(str(tmp_path / "model"), load_inventory(tmp_path / "senses.json"), examples=[])
    assert ranker.hours_to_peak == best["hours"]


def test_a_cell_model_that_was_not_scored_has_hours_but_no_peak(corpus: Corpus, tmp_path: Path) -> None:
    assert train(corpus, tmp_path / "model", "--epochs", "1") == 0
    training = json.loads((tmp_path / "model" / "config.json").read_text())["training"]
    assert training["hours"] > 0
    assert "hours_to_peak" not in training
