"""What must be the same for a run to go on, and what may have come since it was started."""

from pathlib import Path
from typing import Any

import pytest
import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.training import train
from lmcells.training.checkpoint import load_newest
from training.small_runs import planted_corpus, tiny_config, tiny_settings


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=30)


def run(corpus: Corpus, output: Path, *, epochs: int, **model: Any) -> dict[str, torch.Tensor]:
    config = tiny_config(corpus, masks_span=True, masked_span_dim=5, **model)
    settings = tiny_settings(epochs=epochs, contrastive_weight=1.0, contrastive_spans=8)
    result = train(corpus, model_config=config, settings=settings, output=output, device="cpu", resume=True)
    return result.model.state_dict()


def forget_reach(output: Path) -> None:
    """Make the newest checkpoint one of before `masked_span_reach`."""
    checkpoint = load_newest(output)
    assert checkpoint is not None
    del checkpoint.made_with["model"]["masked_span_reach"]
    checkpoint.save(output)


def test_a_run_of_before_the_reach_could_be_set_goes_on_as_one_of_two_words(
    corpus: Corpus, tmp_path: Path
) -> None:
    run(corpus, tmp_path / "old", epochs=1)
    forget_reach(tmp_path / "old")
    found, expected = run(corpus, tmp_path / "old", epochs=2), run(corpus, tmp_path / "new", epochs=2)
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_run_of_before_does_not_go_on_with_another_reach(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, epochs=1)
    forget_reach(tmp_path)
    with pytest.raises(ConfigError, match=r"model\.masked_span_reach = 2, now it is 4\. Resume with"):
        run(corpus, tmp_path, epochs=2, masked_span_reach=4)
