import dataclasses
import math
import subprocess
import sys

import pytest

from lmcells.errors import ConfigError
from lmcells.model import ModelConfig, create_model
from lmcells.settings import from_saved
from model.tiny import tiny_config


def test_the_defaults_are_the_papers() -> None:
    config = ModelConfig(n_words=100, n_metadata=10)
    assert (config.kind, config.cell_dim, config.embedding_dim, config.hidden_dim) == ("lmc", 100, 100, 64)
    assert (config.metadata_dim, config.dropout, config.margin) == (128, 0.2, 1.0)
    assert config.variance_floor == 1e-3
    assert (config.window, config.n_section_draws) == (10, 10)
    assert (config.center_mask_rate, config.context_mask_rate) == (0.2, 0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "lcm"}, "kind is 'lcm'; allowed: lmc, bsg, mbsge. Nearest: 'lmc'."),
        ({"n_words": 0}, "n_words is 0; allowed: an integer of at least 1."),
        ({"n_metadata": 0}, "n_metadata is 0; allowed: an integer of at least 1."),
        ({"cell_dim": 1.5}, "cell_dim is 1.5; allowed: an integer of at least 1."),
        ({"hidden_dim": True}, "hidden_dim is True; allowed: an integer of at least 1."),
        ({"masked_span_reach": 0}, "masked_span_reach is 0; allowed: an integer of at least 1."),
        ({"masked_span_reach": 2.0}, "masked_span_reach is 2.0; allowed: an integer of at least 1."),
        ({"masked_span_dim": 8}, "masked_span_dim is 8 but masks_span is false; allowed then: 0."),
        ({"masks_span": 1}, "masks_span is 1; allowed: true or false."),
        ({"dropout": 1.0}, "dropout is 1.0; allowed: a finite number of at least 0 and below 1."),
        ({"dropout": math.nan}, "dropout is nan; allowed: a finite number of at least 0 and below 1."),
        ({"margin": -1}, "margin is -1; allowed: a finite number of at least 0."),
        ({"margin": math.inf}, "margin is inf; allowed: a finite number of at least 0."),
        ({"embedding_std": "0.1"}, "embedding_std is '0.1'; allowed: a finite number of at least 0."),
        ({"kind": "mbsge"}, "category_rate is 0.1 but n_categories is 0; allowed then: 0."),
        (
            {"kind": "mbsge", "n_categories": 3, "section_rate": 0.9},
            "category_rate and section_rate add up to 1; allowed: below 1, so that some centers are words.",
        ),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_written(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        ModelConfig(**{"n_words": 100, "n_metadata": 10, **settings})
    assert str(refusal.value) == message


def test_only_the_ensemble_has_centers_beyond_words() -> None:
    assert ModelConfig(kind="lmc", n_words=100, n_metadata=10).n_centers == 100
    assert ModelConfig(kind="bsg", n_words=100).n_centers == 100
    ensemble = ModelConfig(kind="mbsge", n_words=100, n_metadata=10, n_categories=3)
    assert (ensemble.category_offset, ensemble.section_offset, ensemble.n_centers) == (100, 103, 113)


@pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
@pytest.mark.parametrize(
    "extra", [{}, {"masks_span": True, "masked_span_dim": 6, "phrase_dim": 7, "context_dim": 2}]
)
def test_tensor_shapes_are_those_of_the_torch_model(kind: str, extra: dict[str, int]) -> None:
    config = tiny_config(kind, **extra)
    tensors = create_model(config).state_dict()
    assert config.tensor_shapes() == {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def test_a_saved_config_comes_back() -> None:
    config = tiny_config(masks_span=True, masked_span_dim=6)
    saved = dataclasses.asdict(config)
    assert from_saved(ModelConfig, saved) == config
    del saved["window"]
    with pytest.raises(
        ConfigError, match=r"does not know, or that are missing: depth, window\. Upgrade lmcells\."
    ):
        from_saved(ModelConfig, {**saved, "depth": 2})


def test_the_config_needs_no_torch() -> None:
    code = "import sys, lmcells.model.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
