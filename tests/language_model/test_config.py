"""Settings: refused where they are written, and read from presets, files and flags."""

from dataclasses import asdict
from typing import Any

import pytest
import torch

from lmcells.errors import ConfigError
from lmcells.language_model.config import (
    PRESETS,
    TABLES,
    LanguageModelConfig,
    LanguageModelSettings,
    load_language_model_configuration,
)
from lmcells.language_model.model import LanguageModel
from lmcells.model import ModelConfig, count_parameters, create_model


def n_parameters(config: LanguageModelConfig) -> int:
    with torch.device("meta"):
        return count_parameters(LanguageModel(config))


@pytest.mark.parametrize("kind", ["transformer", "bilstm"])
def test_it_has_at_least_ten_times_the_parameters_of_the_lmc(kind: Any) -> None:
    with torch.device("meta"):
        cells = count_parameters(create_model(ModelConfig(n_words=1000, n_metadata=100)))
    assert n_parameters(LanguageModelConfig(n_words=1000, kind=kind)) >= 10 * cells


def test_parameters_without_tables_do_not_depend_on_the_vocabulary() -> None:
    assert n_parameters(LanguageModelConfig(n_words=10)) == n_parameters(LanguageModelConfig(n_words=9999))


def test_the_papers_preset_has_the_papers_91_million_parameters() -> None:
    preset = load_language_model_configuration(preset="paper")
    config = LanguageModelConfig(**preset.model, n_words=70_000)
    with torch.device("meta"):
        n = sum(parameter.numel() for parameter in LanguageModel(config).parameters())
    assert n == pytest.approx(91e6, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "bilstn"}, "kind is 'bilstn'.*Nearest: 'bilstm'"),
        ({"layers": 0}, "layers is 0; allowed: an integer of at least 1"),
        ({"layers": True}, "layers is True"),
        ({"heads": 3}, "width is 256, heads is 3"),
        ({"dropout": 1.0}, "dropout is 1.0.*below 1"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"filters": []}, "filters is"),
        ({"filters": [0, 0]}, "filters is"),
        ({"filters": [1] * 25}, "at most 24 counts"),
        ({"filters": "8"}, "filters is '8'"),
        ({"max_characters": 2}, "max_characters is 2"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; allowed: a finite number above 0"),
        ({"held_out": 0.0}, "held_out is 0.0; allowed: a finite number above 0 and below 1"),
        ({"held_out": 1}, "held_out is 1"),
        ({"seed": 2**63}, "seed is"),
        ({"precision": "bf15"}, "Nearest: 'bf16'"),
        ({"decay": "flatt"}, "Nearest: 'flat'"),
        ({"flat_tolerance": 1.0}, "flat_tolerance is 1.0"),
        ({"flat_patience": 0}, "flat_patience is 0"),
    ],
)
def test_a_model_or_a_training_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    of_training = settings.keys() <= TABLES.keys["training"].keys()
    with pytest.raises(ConfigError, match=message):
        LanguageModelSettings(**settings) if of_training else LanguageModelConfig(n_words=10, **settings)


def test_the_learning_rate_rises_to_its_height_and_then_falls() -> None:
    settings = LanguageModelSettings(learning_rate=0.5, warmup_steps=10, decay="root")
    rates = [settings.learning_rate_at(step) for step in (1, 5, 10, 40)]
    assert rates == pytest.approx([0.05, 0.25, 0.5, 0.25])


def test_the_learning_rate_stays_until_a_check_brings_no_improvement() -> None:
    settings = LanguageModelSettings(learning_rate=0.5, warmup_steps=10)
    assert [settings.learning_rate_at(step) for step in (5, 10, 40)] == pytest.approx([0.25, 0.5, 0.5])
    assert settings.learning_rate_at(40, n_unimproved=2) == pytest.approx(0.125)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_names_every_setting(preset: str) -> None:
    loaded = load_language_model_configuration(preset=preset)
    assert set(loaded.model) == set(TABLES.keys["language_model"])
    assert set(asdict(loaded.training)) == set(TABLES.keys["training"])


def test_the_default_preset_is_the_dataclasses_defaults() -> None:
    loaded = load_language_model_configuration()
    assert LanguageModelConfig(**loaded.model, n_words=5) == LanguageModelConfig(n_words=5)
    assert loaded.training == LanguageModelSettings()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["language_model.layer=3"], "'language_model.layer' is not known.*Nearest: 'language_model.layers'"),
        (["model.layers=3"], "'model' is not known; allowed: \\[language_model\\]"),
        (["language_model.n_words=3"], "n_words comes from the corpus"),
        (["training.epochs=none"], "epochs is None"),
        (["language_model.filters=[0, 0]"], "filters is"),
    ],
)
def test_an_override_that_means_nothing_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_language_model_configuration(overrides=overrides)
