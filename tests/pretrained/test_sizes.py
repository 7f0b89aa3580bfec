"""Sizes of models that were saved before a setting was there."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, ModelError
from lmcells.model import CellModel, ModelConfig, Windows, create_model
from lmcells.pretrained import ModelSizes, PretrainedModel, save_pretrained
from lmcells.pretrained.folder import shipped_model

NOTES = [f"HPI: chest pain fever cough\n\nPLAN: rest pain {'ice' if i % 2 else 'heat'}" for i in range(6)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), NOTES)


def gap_model(corpus: Corpus, *, masked_span_reach: int) -> CellModel:
    torch.manual_seed(0)
    return create_model(
        ModelConfig(
            n_words=len(corpus.words),
            n_metadata=corpus.n_metadata("section"),
            cell_dim=5,
            embedding_dim=4,
            hidden_dim=3,
            masks_span=True,
            masked_span_dim=6,
            masked_span_reach=masked_span_reach,
        )
    ).eval()


def set_reach(folder: Path, value: object) -> None:
    """Write another reach into a model's config; None takes it out."""
    config = json.loads((folder / "config.json").read_text())
    if value is None:
        del config["model"]["masked_span_reach"]
    else:
        config["model"]["masked_span_reach"] = value
    (folder / "config.json").write_text(json.dumps(config))


def test_a_folder_that_does_not_say_how_far_its_gap_reader_looks_means_two_words(
    corpus: Corpus, tmp_path: Path
) -> None:
    model, folder = gap_model(corpus, masked_span_reach=2), tmp_path / "model"
    save_pretrained(model, folder, corpus=corpus)
    set_reach(folder, None)
    loaded = PretrainedModel.from_pretrained(folder, verify=True)
    assert loaded.sizes.masked_span_reach == 2
    assert loaded.to_torch().config == model.config

    gap = model.config.mask_id
    context = torch.tensor([[2, 3, 4, gap, 5, 6, 0], [gap, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]])
    mask = torch.ones_like(context, dtype=torch.bool)
    center, metadata = torch.tensor([0, 1, 2]), torch.tensor([1, -1, 0])
    windows = Windows(center=center, metadata=metadata, context=context, context_mask=mask)
    with torch.no_grad():
        expected = model.posterior(windows).cell.mean
        again = loaded.to_torch().posterior(windows).cell.mean
    found = loaded.variational.posterior(center.numpy(), metadata.numpy(), context.numpy(), mask.numpy())
    assert torch.equal(again, expected)
    np.testing.assert_allclose(found.mean, expected.numpy(), rtol=0, atol=1e-4)


def test_a_folder_that_looks_further_must_say_so(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_pretrained(gap_model(corpus, masked_span_reach=4), folder, corpus=corpus)
    assert PretrainedModel.from_pretrained(folder).sizes.masked_span_reach == 4
    set_reach(folder, None)
    with pytest.raises(
        ModelError, match=r"masked_span_reader\.hidden\.weight .*\(6, 44\), .* need floats \(6, 28\)"
    ):
        PretrainedModel.from_pretrained(folder)


@pytest.mark.parametrize("value", [0, -1, 2.0, "2", True])
def test_a_reach_that_is_none_is_refused_in_one_line(corpus: Corpus, tmp_path: Path, value: object) -> None:
    folder = tmp_path / "model"
    save_pretrained(gap_model(corpus, masked_span_reach=2), folder, corpus=corpus)
    set_reach(folder, value)
    with pytest.raises(
        ModelError, match=r"masked_span_reach is .*; allowed: an integer of at least 1"
    ) as refused:
        PretrainedModel.from_pretrained(folder)
    assert "\n" not in str(refused.value)


def test_other_sizes_must_be_there(corpus: Corpus) -> None:
    config = asdict(gap_model(corpus, masked_span_reach=2).config)
    del config["masked_span_dim"], config["masked_span_reach"]
    with pytest.raises(ConfigError, match=r"settings lack masked_span_dim\."):
        ModelSizes.from_config(config)


def test_the_shipped_model_reads_gaps_as_it_does_in_torch() -> None:
    model = PretrainedModel.from_pretrained(shipped_model())
    draw, sizes = np.random.default_rng(0), model.sizes
    context = draw.integers(0, sizes.n_words, (9, 2 * sizes.window))
    context[np.arange(9), draw.integers(0, context.shape[1], 9)] = sizes.mask_id
    mask = (draw.random(context.shape) < 0.8) | (context == sizes.mask_id)
    center, metadata = draw.integers(0, sizes.n_words, 9), draw.integers(-1, sizes.n_metadata, 9)
    found = model.variational.posterior(center, metadata, context, mask)
    windows = Windows(
        center=torch.from_numpy(center),
        metadata=torch.from_numpy(metadata),
        context=torch.from_numpy(context),
        context_mask=torch.from_numpy(mask),
    )
    with torch.no_grad():
        expected = model.to_torch().posterior(windows).cell
    np.testing.assert_allclose(found.mean, expected.mean.numpy(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.log_variance, expected.log_variance.numpy(), rtol=0, atol=1e-4)
