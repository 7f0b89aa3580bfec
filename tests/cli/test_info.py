"""`lmcells info` on models, and on what is neither corpus nor model."""

import json
from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from lmcells.cli.main import main
from lmcells.model import ModelConfig, create_model
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
