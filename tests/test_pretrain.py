"""What training replaces stays until the new model is complete."""

from pathlib import Path
from typing import Any

import pytest

from corpora import corpus_of
from lmcells import pretrain
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.pretrain import train
from lmcells.pretrained import PretrainedModel

SMALL: dict[str, Any] = {
    **{f"model.{name}": 8 for name in ("cell_dim", "embedding_dim", "hidden_dim", "window", "phrase_dim")},
    "model.masked_span_dim": 0,
    "training.epochs": 1,
    "training.contrastive_spans": 16,
    "training.batch_size": 512,
}
OF_TRAINING = {name: value for name, value in SMALL.items() if name.startswith("training")}
ELMO = [
    *["language_model.width=8", "language_model.layers=1", "language_model.heads=2"],
    *["training.epochs=1", "training.batch_size=512"],
]
NOTES = ["PLAN: physical therapy for gait of the knee and the hip", "LABS: prothrombin time in blood"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("notes"), NOTES * 30, stop_words=True)


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> Path:
    return train(corpus, output=corpus.folder.parent / "model", device="cpu", overrides=SMALL).folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_of_another_format_stays_until_the_new_one_is_saved(
    corpus: Corpus, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    before = contents(model)
    monkeypatch.setattr(pretrain, "save_language_model", fill_the_disk)
    given: dict[str, Any] = {"output": model, "device": "cpu", "overwrite": True}
    with pytest.raises(OSError, match="the disk is full"):
        train(corpus, kind="elmo", overrides=ELMO, **given)
    assert contents(model) == before


def test_a_model_that_replaces_the_one_it_adapts_keeps_its_calibration(corpus: Corpus, model: Path) -> None:
    (model / "calibration.json").write_text('{"temperature": 2.0, "least_probability": 0.0}')
    before = contents(model)
    train(corpus, output=model, from_model=model, device="cpu", overwrite=True, overrides=OF_TRAINING)
    after = contents(model)
    assert after["model.safetensors"] != before["model.safetensors"]
    assert after["calibration.json"] == before["calibration.json"]
    assert PretrainedModel.from_pretrained(model, verify=True).words


def test_a_folder_of_something_else_made_during_the_training_is_not_replaced(
    corpus: Corpus, tmp_path: Path
) -> None:
    output = tmp_path / "model"

    def make(_: str) -> None:
        output.mkdir(exist_ok=True)
        (output / "notes.txt").write_text("mine")

    with pytest.raises(InputError, match="not a model"):
        train(corpus, output=output, device="cpu", overrides=SMALL, on_progress=make)
    assert contents(output) == {"notes.txt": b"mine"}
