"""`lmcells train`, as it is typed, and `lmcells.train`, which gives the same model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lmcells
from corpora import corpus_of
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.evaluation.rankers import make_ranker
from lmcells.expansion import load_inventory
from lmcells.language_model.folder import is_language_model, load_language_model
from lmcells.pretrain import _advising
from lmcells.pretrained import PretrainedModel
from lmcells.training import Progress
from refusals import assert_refused
from training.small_runs import planted_corpus

EXAMPLES = Path(__file__).parents[2] / "examples" / "notes"
SMALL = {"model.cell_dim": 8, "model.embedding_dim": 8, "model.hidden_dim": 6, "model.window": 4}
SMALL_DEFAULT = {**SMALL, "model.masked_span_dim": 8, "model.phrase_dim": 8, "training.contrastive_spans": 16}
# A learning rate that falls allows no other number of epochs later.
QUICK = {**SMALL_DEFAULT, "training.final_learning_rate": 1, "training.batch_size": 256}
SMALL_ELMO = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "filters": [4, 4]}
QUICK_ELMO = {"training.batch_size": 128} | {f"language_model.{name}": n for name, n in SMALL_ELMO.items()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=40)


def command(corpus: Path, output: Path, settings: dict[str, Any], *arguments: str) -> list[str]:
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return ["train", str(corpus), "--output", str(output), "--device", "cpu", *flags, *arguments]


def train(corpus: Corpus, output: Path, *arguments: str) -> int:
    settings = QUICK_ELMO if "elmo" in arguments else QUICK
    return main(command(corpus.folder, output, settings, *arguments))


def training_of(model: Path) -> dict[str, Any]:
    training: dict[str, Any] = json.loads((model / "config.json").read_text())["training"]
    return training


def timeless(path: Path) -> bytes:
    """The bytes of a file of a model folder, less the seconds that training took."""
    lines = path.read_bytes().splitlines(keepends=True)
    times = (b'"seconds"', b'"hours', b"| seconds |", b"| hours |")
    return b"".join(line for line in lines if not line.lstrip().startswith(times))


@pytest.mark.parametrize(
    ("kind", "settings"), [(None, SMALL_DEFAULT), ("elmo", QUICK_ELMO)], ids=["default", "elmo"]
)
def test_python_and_the_shell_give_the_same_model(
    tmp_path: Path, kind: str | None, settings: dict[str, Any]
) -> None:
    by_shell, by_python = tmp_path / "shell", tmp_path / "python"
    prepared = tmp_path / "corpus"
    sizes = ("--min-count", "1", "--min-header-count", "2")
    assert main(["prepare", str(EXAMPLES), "--output", str(prepared), *sizes]) == 0
    arguments = ("--preset", "default", "--epochs", "1", *(("--kind", kind) if kind else ()))
    assert main(command(prepared, by_shell, settings, *arguments)) == 0
    trained = lmcells.train(
        prepared,
        output=by_python,
        kind=kind,
        preset="default",
        overrides={"training.epochs": 1, **settings},
        device="cpu",
    )
    assert trained.folder == by_python
    names = sorted(path.name for path in by_shell.iterdir())
    assert names == sorted(path.name for path in by_python.iterdir())
    assert ("phrases.safetensors" in names) == (kind is None)
    for name in names:
        assert timeless(by_python / name) == timeless(by_shell / name), name
    assert training_of(by_python)["steps"] == trained.record["steps"]


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
    training = training_of(output)
    assert training["seed"] == 5
    assert training["settings"]["epochs"] == 1
    assert training["corpus"] == corpus.manifest.fingerprint
    assert training["hours"] > 0
    assert "hours_to_peak" not in training  # it was not scored
    assert not (output / "checkpoints").exists()
    assert (tmp_path / "model.training" / "metrics.jsonl").is_file()


def test_a_language_model_is_trained_saved_and_goes_on(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, elmo = tmp_path / "model", ("--kind", "elmo", "--seed", "5")
    assert train(corpus, output, *elmo, "--epochs", "1", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["encoder"]) == ("elmo", "transformer")
    loaded = load_language_model(output)
    assert loaded.training["seed"] == 5
    assert loaded.training["settings"]["batch_size"] == 128
    assert loaded.training["held_out_loss"] == printed["held_out_loss"]
    assert loaded.model.config.filters == (4, 4)
    assert (tmp_path / "model.training" / "metrics.jsonl").is_file()
    assert train(corpus, output, *elmo, "--epochs", "2", "--resume") == 0
    assert "held out loss" in capsys.readouterr().out


def without_reports(errors: str) -> list[str]:
    """The lines that do not tell how training goes."""
    reports = ("lmcells train: training on ", "lmcells train: epoch ")
    return [line for line in errors.splitlines() if not line.startswith(reports)]


@pytest.mark.parametrize("kind", ["lmc", "bsg"])
def test_metadata_that_never_varies_is_one_line_of_warning_where_it_matters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    plain = corpus_of(tmp_path / "plain", ["slow gait and pain in the knee"] * 40)
    assert train(plain, tmp_path / "model", "--kind", kind, "--epochs", "1") == 0
    warned = without_reports(capsys.readouterr().err)
    assert len(warned) == (kind == "lmc")
    assert all("has only one value of 'section'" in line for line in warned)


def test_a_corpus_in_which_nothing_but_stop_words_comes_up_again_is_trained_on(tmp_path: Path) -> None:
    notes = [f"the word{at} of note{at}" for at in range(40)]
    corpus = corpus_of(tmp_path / "plain", notes, stop_words=True)
    assert train(corpus, tmp_path / "model", "--epochs", "1", "--preset", "default") == 0
    assert PretrainedModel.from_pretrained(tmp_path / "model").phrase_store is None


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
        (("--resume", "--overwrite"), "--resume and --overwrite contradict each other"),
        (("--evaluate", "dev.jsonl"), "--evaluate and --inventory go together"),
        (("--kind", "elmo", "--epochs", "0"), "epochs is 0"),
        (("--kind", "elmo", "--set", "language_model.layer=3"), "Nearest: 'language_model.layers'"),
        (("--kind", "elmo", "--set", "model.cell_dim=3"), "'model' is not known"),
        (("--kind", "elmo", "--metadata", "section"), "'training.metadata' is not known"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code = train(corpus, tmp_path / "model", *arguments)
    assert_refused(code, capsys, command="train", message=message)
    assert not (tmp_path / "model.training" / "checkpoints").exists()


def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path / "none"), "--output", str(tmp_path / "model")]) == 2
    assert "does not exist" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"kind is 'lcm'.*Nearest: 'lmc'"):
        lmcells.train(tmp_path, output=tmp_path / "model", kind="lcm")


def test_a_finished_run_goes_on_or_is_overwritten_only_when_asked_to(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--epochs", "1") == 0
    assert train(corpus, output, "--epochs", "1") == 2
    assert "already exists" in capsys.readouterr().err
    assert train(corpus, output, "--epochs", "2", "--resume") == 0
    assert training_of(output)["settings"]["epochs"] == 2
    assert train(corpus, output, "--epochs", "1", "--seed", "3", "--overwrite") == 0
    assert (training_of(output)["seed"], training_of(output)["settings"]["epochs"]) == (3, 1)
    steps = {path.stem for path in (tmp_path / "model.training" / "checkpoints").iterdir()}
    assert steps == {f"{training_of(output)['steps']:08d}"}
    assert train(corpus, output, "--epochs", "1", "--kind", "elmo", "--overwrite") == 0
    assert is_language_model(output)


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_what_is_not_a_model_is_never_overwritten(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    (tmp_path / "config.json").write_text('{"format": "mine"}')
    assert train(corpus, tmp_path, flag) == 2
    assert "is not a model folder" in capsys.readouterr().err
    assert train(corpus, tmp_path / "config.json", flag) == 2
    assert "is not a model folder" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == '{"format": "mine"}'


def test_a_damaged_checkpoint_is_one_line_of_warning(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--epochs", "2") == 0
    newest = max((tmp_path / "model.training" / "checkpoints").glob("*.json"))
    newest.write_text("{")
    capsys.readouterr()
    assert train(corpus, output, "--epochs", "2", "--resume") == 0
    assert without_reports(capsys.readouterr().err) == [
        f"lmcells train: {newest} is damaged: it is not JSON. Trying the checkpoint before it."
    ]


def test_it_runs_on_a_bare_machine_and_stops_when_asked(corpus: Corpus, tmp_path: Path) -> None:
    """With torch, numpy and safetensors alone: what else may be installed is made unimportable."""
    absent = (
        "rich",
        "pyarrow",
        "polars",
        "tensorboard",
        "pydantic",
        "sklearn",
        "scipy",
        "jinja2",
        "matplotlib",
    )
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({absent!r}))\n")
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"}
    started = [sys.executable, "-m", "lmcells", *command(corpus.folder, tmp_path / "model", QUICK)]
    process = subprocess.Popen(
        [*started, "--epochs", "100000"], env=environment, stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "model.training" / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "lmcells train: training on the CPU with 1 thread: 100000 epochs of 2 steps" in errors
    stopped = [line for line in without_reports(errors) if line.startswith("lmcells train: ")]
    assert len(stopped) == 1
    assert "continue with --resume" in stopped[0]
    last = json.loads(metrics.read_text().splitlines()[-1])
    finished = subprocess.run(
        [*started, "--epochs", str(last["epoch"] + 1), "--resume"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "model" / "config.json").is_file()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(("--preset", "paper"), SMALL), (("--kind", "elmo"), QUICK_ELMO)],
    ids=["lmc", "elmo"],
)
def test_hours_to_the_peak_of_the_scores_are_recorded_with_the_model(
    tmp_path: Path, kind: tuple[str, ...], settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    notes = [f"PLAN: PT with physical therapy exercises for pain {i}" for i in range(60)]
    corpus, output = corpus_of(tmp_path, notes), tmp_path / "model"
    example = {"id": "e/1", "text": "PT with exercises", "start": 0, "end": 2, "short_form": "PT"}
    example |= {"section": "PLAN", "long_form": "physical therapy", "note_id": "x/1"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(example))
    senses = [
        {"short_form": "PT", "long_form": name, "forms": [name]}
        for name in ("physical therapy", "pain therapy")
    ]
    (tmp_path / "senses.json").write_text(json.dumps(senses))
    scored = ("--evaluate", str(tmp_path / "dev.jsonl"), "--inventory", str(tmp_path / "senses.json"))
    assert main(command(corpus.folder, output, settings, *kind, *scored, "--epochs", "2", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    lines = (tmp_path / "model.training" / "metrics.jsonl").read_text().splitlines()
    scores = [line for line in map(json.loads, lines) if "evaluation" in line]
    assert len(scores) == 2
    assert set(scores[0]["evaluation"]["dev"]) == {"accuracy", "macro_f1", "nll"}
    best = max(scores, key=lambda line: line["evaluation"]["dev"]["macro_f1"])
    training = training_of(output)
    assert training["hours_to_peak"] == printed["hours_to_peak"] == best["hours"]
    assert training["peak"]["score"] == best["evaluation"]["dev"]["macro_f1"]
    assert training["hours"] == training["seconds"] / 3600 >= training["hours_to_peak"] > 0
    ranker = make_ranker(str(output), load_inventory(tmp_path / "senses.json"), examples=[])
    assert ranker.hours_to_peak == best["hours"]


def test_a_long_training_on_a_cpu_is_told_what_is_quicker() -> None:
    said: list[str] = []
    report = _advising(said.append, is_adapting=False)
    report(Progress({}, {}, "first", 7200.0))
    report(Progress({}, {}, "second", 7200.0))
    assert said == [
        "first. That is long for a CPU; quicker: --from default (adapts the shipped model), --preset tuned "
        "(no phrases), fewer --epochs, a GPU",
        "second",
    ]
