import pytest
import torch

from lmcells.model import NULL_METADATA, SectionDraws, kl_divergence
from model.tiny import tiny_config, tiny_model


def test_null_metadata_adds_nothing_to_the_hidden_layer() -> None:
    prior = tiny_model().prior
    words = torch.arange(13)
    joined = torch.cat([prior.words.weight, torch.zeros_like(prior.words.weight)], dim=1)
    expected = prior.heads(prior.hidden(joined).relu())
    for metadata in (None, torch.full_like(words, NULL_METADATA)):
        torch.testing.assert_close(prior(words, metadata).mean, expected.mean)
        torch.testing.assert_close(prior(words, metadata).log_variance, expected.log_variance)


def test_ids_of_any_shape_are_paired() -> None:
    prior = tiny_model().prior
    words, sections = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[0, 1], [2, NULL_METADATA]])
    pairs = prior(words, sections)
    assert pairs.mean.shape == (2, 2, 5)
    torch.testing.assert_close(pairs.mean[1, 0], prior(torch.tensor(5), torch.tensor(2)).mean)


def test_a_phrase_can_be_given_as_a_vector() -> None:
    prior = tiny_model().prior
    words, section = torch.tensor([3]), torch.tensor([1])
    of_ids, of_vectors = prior(words, section), prior.of_vectors(prior.words(words), section)
    assert kl_divergence(of_ids, of_vectors).item() == 0


def test_the_moment_table_of_an_lmc_needs_sections() -> None:
    with pytest.raises(ValueError, match="needs sections"):
        tiny_model().prior.moments(SectionDraws(), variance_floor=0.0)


def test_the_word_table_keeps_metadata_out_of_the_moment_table() -> None:
    model = tiny_model("mbsge")
    moments = model.prior.moments(SectionDraws(), variance_floor=0.0)
    assert moments.a1.shape == (tiny_config("mbsge").n_words, 5)
    picked = model.prior.moments(SectionDraws(words=torch.tensor([4, 2])), variance_floor=0.0)
    torch.testing.assert_close(picked.a1, moments.a1[[4, 2]])
