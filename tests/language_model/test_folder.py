"""A language model's folder: what is saved comes back, and what is not whole is refused."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from corpora import corpus_of
from language_model.small_models import small_model, texts_of
from lmcells.corpus import Corpus
from lmcells.errors import InputError, ModelError
from lmcells.files import sha256, write_tensors
from lmcells.language_model.folder import is_language_model, load_language_model, save_language_model
from lmcells.pretrained import PretrainedModel

NOTES = ["HPI: chest pain and cough", "HPI: fever and chest pain"]
KINDS = pytest.mark.parametrize("kind", ["transformer", "bilstm"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), NOTES)


@pytest.fixture(scope="module")
def saved(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_language_model(small_model(len(corpus.words)), folder, corpus=corpus, training={"seed": 3})
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def edit_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def vouch_for(folder: Path, name: str) -> None:
    path = folder / name
    entry = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    edit_config(folder, lambda config: config["files"].update({name: entry}))


@KINDS
def test_what_is_saved_comes_back(corpus: Corpus, tmp_path: Path, kind: Any) -> None:
    model = small_model(len(corpus.words), kind=kind)
    save_language_model(model, tmp_path / "model", corpus=corpus, training={"seed": 3})
    state = torch.get_rng_state()
    loaded = load_language_model(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)  # nothing was drawn
    assert loaded.model.config == model.config
    assert loaded.words == corpus.words
    assert loaded.training == {"seed": 3}
    assert loaded.corpus["fingerprint"] == corpus.manifest.fingerprint
    assert not loaded.model.training
    texts = texts_of([["chest", "pain"], ["unheard"]])
    assert torch.equal(loaded.model.mean_states(texts), model.mean_states(texts))


def test_the_weights_are_a_safetensors_file(saved: Path, corpus: Corpus) -> None:
    expected = small_model(len(corpus.words)).state_dict()
    found = load_file(saved / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert sorted(path.name for path in saved.iterdir()) == [
        "config.json", "model.safetensors", "vocabulary.json",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_file_is_refused(copy: Path, name: str, damage: str) -> None:
    content = bytearray((copy / name).read_bytes())
    if damage == "gone":
        (copy / name).unlink()
    else:
        content[-5] ^= 1
        (copy / name).write_bytes(content[:-1] if damage == "cut" else content)
    with pytest.raises(ModelError, match=f"{name} is (damaged: (its checksum differs|found)|missing)"):
        load_language_model(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="lmcells-model"), "is of another format"),
        (lambda c: c.update(version=2), "language model format 2.*Upgrade"),
        (lambda c: c.update(tokenizer="0"), "tokenizer rules '0'"),
        (lambda c: c.pop("files"), "it lacks files"),
        (lambda c: c.update(language_model=[]), "language_model is not a mapping"),
        (lambda c: c["files"].pop("vocabulary.json"), "files lacks vocabulary.json"),
        (lambda c: c["language_model"].update(newer=1), "does not know, or that are missing: newer"),
        (lambda c: c["language_model"].update(layers=0), "layers is 0"),
        (lambda c: c["language_model"].update(layers=3), "forward_stack.layers.2.* is missing"),
        (lambda c: c["language_model"].update(feed_forward=8), r"is of float32 \(32, 16\), the model's sett"),
        (lambda c: c["language_model"].update(n_words=2), "names, the model's settings say 2"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(
    copy: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    edit_config(copy, change)
    with pytest.raises(ModelError, match=message):
        load_language_model(copy)


def test_what_is_no_language_model_is_refused(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(ModelError, match=r"is not a language model: it has no config.json"):
        load_language_model(tmp_path)
    (copy / "config.json").write_text("{")
    with pytest.raises(ModelError, match="it is not JSON"):
        load_language_model(copy)
    assert not is_language_model(copy)


def test_a_tensor_file_that_is_none_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"pickle")
    vouch_for(copy, "model.safetensors")
    with pytest.raises(ModelError, match="is not a complete safetensors file"):
        load_language_model(copy)
    write_tensors(copy / "model.safetensors", {})
    vouch_for(copy, "model.safetensors")
    with pytest.raises(ModelError, match="is missing, the model's settings need floats"):
        load_language_model(copy)


def test_one_kind_of_folder_is_not_taken_for_another(saved: Path) -> None:
    assert is_language_model(saved)
    with pytest.raises(ModelError, match="is of another format"):
        PretrainedModel.from_pretrained(saved)


def test_only_a_language_model_is_overwritten(corpus: Corpus, copy: Path, tmp_path: Path) -> None:
    model = small_model(len(corpus.words), seed=9)
    save_language_model(model, copy, corpus=corpus, training={})
    texts = texts_of([["pain"]])
    assert torch.equal(load_language_model(copy).model.mean_states(texts), model.mean_states(texts))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(InputError, match="is not overwritten"):
        save_language_model(model, tmp_path / "mine", corpus=corpus, training={})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "mine"]


def test_what_cannot_be_a_model_is_not_saved(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the model has 3 words"):
        save_language_model(small_model(3), tmp_path / "model", corpus=corpus, training={})
    model = small_model(len(corpus.words))
    model.vocabulary.biases.weight.data[0] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        save_language_model(model, tmp_path / "model", corpus=corpus, training={})
    assert not any(tmp_path.iterdir())


def test_a_folder_is_recognised_without_torch(saved: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from lmcells.language_model.folder import is_language_model\n"
        "assert is_language_model(Path(sys.argv[1]))\n"
    )
    subprocess.run([sys.executable, "-c", code, saved], check=True)
