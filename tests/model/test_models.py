import dataclasses

import pytest
import torch

from lmcells.model import (
    NULL_METADATA,
    BayesianSkipGram,
    CellModel,
    LatentMeaningCells,
    MetadataSkipGramEnsemble,
    ModelConfig,
    count_parameters,
    create_model,
)
from model.tiny import gradients_of, tiny_batch, tiny_draws, tiny_model

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])


@pytest.mark.parametrize(
    ("kind", "model_class", "of_the_paper", "exactly"),
    [
        ("lmc", LatentMeaningCells, 169_000, 169_164),
        ("bsg", BayesianSkipGram, 150_000, 149_349),
        ("mbsge", MetadataSkipGramEnsemble, 150_000, 149_349),
    ],
)
def test_each_kind_has_its_class_and_the_papers_parameter_count(
    kind: str, model_class: type[CellModel], of_the_paper: int, exactly: int
) -> None:
    model = create_model(ModelConfig(kind=kind, n_words=30, n_metadata=7, n_categories=2))
    assert type(model) is model_class
    assert count_parameters(model) == exactly == pytest.approx(of_the_paper, rel=0.01)


@KINDS
def test_the_standard_deviation_of_the_tables_can_be_set(kind: str) -> None:
    for std, expected in ((None, 1.0), (0.1, 0.1)):
        model = tiny_model(kind, n_words=500, embedding_dim=20, embedding_std=std)
        table = model.variational.context.words.weight
        assert table.std().item() == pytest.approx(expected, rel=0.05)


def test_the_skip_gram_reads_no_metadata() -> None:
    model = tiny_model("bsg")
    batch = tiny_batch(model.config)
    given = dataclasses.replace(batch, metadata=torch.ones_like(batch.center))
    assert torch.equal(model.posterior(given, gate=0.5).cell.mean, model.posterior(batch).cell.mean)
    assert not model.posterior(given).gate.any()


def test_the_ensemble_averages_the_cells_of_word_and_section() -> None:
    model = tiny_model("mbsge")
    batch = dataclasses.replace(tiny_batch(model.config), center_mask=None)
    section = batch.metadata + model.config.section_offset
    of_word, of_section = (
        model.posterior(dataclasses.replace(batch, center=center, metadata=None)).cell
        for center in (batch.center, section)
    )
    both = model.posterior(batch).cell
    torch.testing.assert_close(both.mean, (of_word.mean + of_section.mean) / 2)
    of_both = (
        of_word.log_variance.exp() + of_section.log_variance.exp()
    ) / 2  # variances, as the authors have it
    torch.testing.assert_close(both.log_variance.exp(), of_both)

    partly = model.posterior(
        dataclasses.replace(batch, metadata=batch.metadata.index_fill(0, torch.tensor([2]), NULL_METADATA))
    )
    torch.testing.assert_close(partly.cell.mean[2], of_word.mean[2])
    torch.testing.assert_close(partly.cell.mean[3], both.mean[3])


def test_the_ensemble_masks_the_word_and_not_the_section() -> None:
    model = tiny_model("mbsge")
    batch = tiny_batch(model.config)
    masked = dataclasses.replace(batch, center_mask=torch.zeros_like(batch.center_mask))
    other_word = dataclasses.replace(masked, center=(batch.center + 1) % 13)
    other_section = dataclasses.replace(masked, metadata=(batch.metadata + 1) % 6)
    mean = model.posterior(masked).cell.mean
    torch.testing.assert_close(model.posterior(other_word).cell.mean, mean)
    assert not torch.allclose(model.posterior(other_section).cell.mean[1], mean[1])


def test_the_loss_compiles_as_one_graph_with_the_same_gradients() -> None:
    """Of one kind: the others take the same branches."""
    model = tiny_model(window=1)
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    eager = model.loss(batch, draws).total
    compiled = torch.compile(model.loss, backend="aot_eager", fullgraph=True)(batch, draws).total
    torch.testing.assert_close(compiled, eager)
    expected = gradients_of(model, eager.sum())
    torch.testing.assert_close(gradients_of(model, compiled.sum()), expected)
