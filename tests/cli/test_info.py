"""`lmcells info` on models of both kinds, and on what is neither corpus nor model."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from language_model.small_models import small_model
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.language_model.folder import save_language_model
from lmcells.model import ModelConfig, count_parameters, create_model
from lmcells.pretrained import save_pretrained
from refusals import assert_refused

RECORD = {
    "seed": 7,
    "settings": {"epochs": 9},
    "hours_to_peak": 0.25,
    "peak": {"score": 0.5},
    "ended_by": "flat",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), ["HPI: chest pain\n\nPLAN: rest"])


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    torch.manual_seed(0)
    network = create_model(ModelConfig(n_words=len(corpus.words), n_metadata=corpus.n_metadata("section")))
    save_pretrained(network, folder, corpus=corpus, training={"epochs": 5, "seed": 11})
    return folder


@pytest.fixture(scope="module")
def language_model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "elmo"
    network = small_model(len(corpus.words), kind="bilstm")
    save_language_model(network, folder, corpus=corpus, training=RECORD)
    return folder


def test_a_model_is_described(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model), "--verify"]) == 0
    printed = capsys.readouterr().out
    for text in ("lmc", "metadata (section)", "seed", "11", "hidden_dim", "epochs", "fingerprint", "chest"):
        assert text in printed


def test_a_model_is_described_for_machines(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["model"] == str(model)
    assert described["config"]["model"]["hidden_dim"] == 64
    assert described["n_parameters"] > 169_000


def test_the_shipped_model_is_described_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "default"]) == 0
    assert "masked_span_reach" in capsys.readouterr().out


def test_a_language_model_is_described(language_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(language_model), "--verify"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    rows = [line.split("  ", 1) for line in reversed(lines) if "  " in line]  # the first of a name is kept
    described = {name.strip(): value.strip() for name, value in rows}
    expected = {
        "kind": "elmo (bilstm)",
        "training ended when": "its held-out loss was flat",
        "hours_to_peak": "0.25",
        "peak.score": "0.5",
        "settings.epochs": "9",
        "layers": "2",
    }
    assert expected.items() < described.items()
    assert {"words", "bytes", "fingerprint", "sizes.n_tokens"} < described.keys()


def test_a_language_models_parameters_are_counted_with_and_without_embeddings(
    language_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(language_model), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    model = small_model(described["config"]["language_model"]["n_words"], kind="bilstm")
    assert described["n_parameters_without_embeddings"] == count_parameters(model)
    assert described["n_parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert described["config"]["training"]["ended_by"] == "flat"


def test_a_language_model_whose_training_says_nothing_is_described(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_language_model(small_model(len(corpus.words)), tmp_path / "elmo", corpus=corpus, training={})
    assert main(["info", str(tmp_path / "elmo")]) == 0
    assert "not recorded" in capsys.readouterr().out


def test_a_damaged_model_is_refused_in_one_line(
    model: Path, language_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = Path(shutil.copytree(model, tmp_path / "model"))
    (damaged / "model.safetensors").unlink()
    code = main(["info", str(damaged)])
    assert_refused(code, capsys, command="info", message="model.safetensors is missing")
    damaged = Path(shutil.copytree(language_model, tmp_path / "elmo"))
    content = (damaged / "vocabulary.json").read_bytes()
    (damaged / "vocabulary.json").write_bytes(content.replace(b"chest", b"chess"))
    assert_refused(main(["info", str(damaged)]), capsys, command="info", message="its checksum differs")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "does not exist"),
        ("file", "is not a folder"),
        ("empty", "neither a corpus (no manifest.json) nor a model"),
    ],
)
def test_what_is_neither_corpus_nor_model_is_refused(
    tmp_path: Path, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    assert_refused(main(["info", str(tmp_path / name)]), capsys, command="info", message=message)
