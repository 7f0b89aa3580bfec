"""`lmcells info` on models of both kinds, and on what is neither corpus nor model."""

import json
from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from language_model.small_models import small_model
from lmcells.cli.main import main
from lmcells.language_model.folder import save_language_model
from lmcells.model import ModelConfig, count_parameters, create_model
from lmcells.pretrained import save_pretrained


@pytest.fixture
def model(tmp_path: Path) -> Path:
    corpus = corpus_of(tmp_path, ["HPI: chest pain\n\nPLAN: rest"])
    torch.manual_seed(0)
    network = create_model(ModelConfig(n_words=len(corpus.words), n_metadata=corpus.n_metadata("section")))
    save_pretrained(network, tmp_path / "model", corpus=corpus, training={"epochs": 5, "seed": 11})
    return tmp_path / "model"


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


@pytest.fixture
def language_model(tmp_path: Path) -> Path:
    corpus = corpus_of(tmp_path, ["HPI: chest pain\n\nPLAN: rest"])
    record = {
        "seed": 7,
        "settings": {"epochs": 9},
        "hours_to_peak": 0.25,
        "peak": {"score": 0.5},
        "ended_by": "flat",
    }
    save_language_model(
        small_model(len(corpus.words), kind="bilstm"), tmp_path / "elmo", corpus=corpus, training=record
    )
    return tmp_path / "elmo"


def test_the_shipped_model_is_described_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "default"]) == 0
    assert "masked_span_reach" in capsys.readouterr().out


def test_a_language_model_is_described(language_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(language_model), "--verify"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    rows = [line.split("  ", 1) for line in reversed(lines) if "  " in line]  # the first of a name is kept
    described = {name.strip(): value.strip() for name, value in rows}
    assert described["kind"] == "elmo (bilstm)"
    assert described["training ended when"] == "its held-out loss was flat"
    assert described["hours_to_peak"] == "0.25"
    assert described["peak.score"] == "0.5"
    assert described["settings.epochs"] == "9"
    assert described["layers"] == "2"
    assert {"words", "bytes", "fingerprint", "sizes.n_tokens"} < described.keys()


def test_a_language_models_parameters_are_counted_with_and_without_embeddings(
    language_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(language_model), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    model = small_model(described["config"]["language_model"]["n_words"], kind="bilstm")
    assert described["n_parameters_without_embeddings"] == count_parameters(model)
    assert described["n_parameters"] == count_parameters(model, embeddings=True)
    assert described["config"]["training"]["ended_by"] == "flat"


def test_a_language_model_whose_training_says_nothing_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = corpus_of(tmp_path, ["HPI: chest pain"])
    save_language_model(small_model(len(corpus.words)), tmp_path / "elmo", corpus=corpus)
    assert main(["info", str(tmp_path / "elmo")]) == 0
    assert "not recorded" in capsys.readouterr().out


def test_a_damaged_language_model_is_refused_in_one_line(
    language_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (language_model / "vocabulary.json").write_text("[]")
    assert main(["info", str(language_model)]) == 2
    error = capsys.readouterr().err
    assert "is damaged" in error
    assert error.count("\n") == 1


def test_a_damaged_model_is_refused_in_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "model.safetensors").unlink()
    assert main(["info", str(model)]) == 2
    error = capsys.readouterr().err
    assert "model.safetensors is missing" in error
    assert error.count("\n") == 1


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
    assert main(["info", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err
