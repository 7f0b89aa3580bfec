import pytest
import torch

from lmcells.model import NULL_METADATA, SectionDraws, kl_divergence
from lmcells.model.moments import mixture_moments
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


def test_the_hidden_layer_is_dropped_out_for_each_word_and_drawn_section() -> None:
    prior = tiny_model(hidden_dim=64).prior
    sections = torch.randint(6, (13, 4))
    from_words, from_metadata = prior.project(prior.words.weight)
    plain = (from_words.unsqueeze(1) + from_metadata[sections]).relu()  # (13, 4, 64)
    prior.hidden_dropout.p = 0.25
    torch.manual_seed(0)
    found = prior.moments(SectionDraws(sections=sections), variance_floor=1e-3)
    torch.manual_seed(0)
    kept, scale = prior.hidden_dropout.draw(plain.shape)
    assert kept is not None
    assert 0.2 < (~kept).double().mean() < 0.3
    assert not torch.equal(kept[:, 0], kept[:, 1])
    expected = mixture_moments(prior.heads(plain * kept / 0.75), variance_floor=1e-3)
    assert scale == 1 / 0.75
    for name in ("a0", "a1", "a2", "a3"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


def test_the_moment_table_and_the_center_are_dropped_out_in_training_only() -> None:
    model = tiny_model(dropout=0.5, hidden_dim=64)
    draws = SectionDraws(sections=torch.randint(6, (13, 4)))
    model.prior.dropout.p = 0.0
    for of_step in (
        lambda: model.prior.moments(draws, variance_floor=0.0).a1,
        lambda: model.prior(torch.arange(6), torch.arange(6)).mean,
    ):
        model.train()
        assert not torch.equal(of_step(), of_step())
        model.eval()
        assert torch.equal(of_step(), of_step())
    without = tiny_model(dropout=0.5, hidden_dropout=False).prior
    assert without.hidden_dropout.p == 0


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_variances_of_words_start_where_the_authors_have_them(kind: str) -> None:
    found = tiny_model(kind).prior.log_variance.weight
    assert -3.5 <= found.min() < found.max() <= -1.5
    assert tiny_model(kind, embedding_std=0.1).prior.log_variance.weight.abs().max() < 1
