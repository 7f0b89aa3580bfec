"""Settings: presets, files and flags, and what is refused."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from lmcells.errors import ConfigError
from lmcells.model import ModelConfig
from lmcells.training import PRESETS, TrainingSettings, load_configuration
from lmcells.training.settings import TABLES


@pytest.mark.parametrize(
    "setting",
    [
        {"epochs": 0},
        {"batch_size": 2.5},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"smoothing": -1.0},
        {"gradient_clip": float("inf")},
        {"seed": True},
        {"seed": 2**63},
        {"precision": "fp8"},
        {"compile": "yes"},
        {"metadata": ""},
        {"contrastive_min_count": 1},
    ],
)
def test_a_bad_setting_is_refused_where_it_is_written(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        TrainingSettings(**setting)


def test_the_paper_preset_is_what_the_dataclasses_default_to() -> None:
    configuration = load_configuration(preset="paper")
    assert configuration.training == TrainingSettings()
    assert ModelConfig(**configuration.model, n_words=9, n_metadata=3) == ModelConfig(n_words=9, n_metadata=3)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_names_every_setting(preset: str) -> None:
    configuration = load_configuration(preset=preset)
    assert set(configuration.model) == set(TABLES.keys["model"])
    assert {field.name for field in fields(TrainingSettings)} == set(TABLES.keys["training"])


def test_a_file_goes_over_the_preset_and_flags_over_both(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "paper"\n[model]\nwindow = 5\n[training]\nepochs = 7\nseed = 3\n')
    configuration = load_configuration(
        file=file, overrides=["training.epochs=9", "training.batch_size=1e3", "model.embedding_std=0.5"]
    )
    assert configuration.model["window"] == 5
    assert configuration.model["embedding_std"] == 0.5
    training = configuration.training
    assert (training.epochs, training.seed, training.batch_size) == (9, 3, 1000)
    assert training.contrastive_weight == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nlearning_rat = 1", r"mine.toml: 'training.learning_rat' .*'training.learning_rate'"),
        ("[training]\nwindow = 4", r"'training.window' .*'model.window'"),
        ("[trainin]\nepochs = 4", r"'trainin' .*'training'"),
        ("[model]\nn_words = 4", r"model.n_words comes from the corpus"),
        ("[model]\ndropout = 2", r"mine.toml: dropout is 2"),
        ("[model]\nmasked_span_reach = 0", r"mine.toml: masked_span_reach is 0"),
        ("[training]\nepochs = 'many'", r"mine.toml: epochs is 'many'"),
        ("training = 3", r"must be a table"),
        ("preset = 'papr'", r"mine.toml: preset is 'papr'.*Nearest: 'paper'"),
        ("[training", r"mine.toml cannot be read as TOML"),
    ],
)
def test_a_bad_file_is_refused_by_name_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_configuration(file=file)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epoch=3", r"--set: 'training.epoch' .*'training.epochs'"),
        ("epochs=3", r"TABLE.KEY=VALUE"),
        ("training.epochs", r"TABLE.KEY=VALUE"),
        ("training.epochs=0", r"epochs is 0"),
    ],
)
def test_a_bad_override_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_configuration(overrides=[override])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_configuration(file=tmp_path / "none.toml")
