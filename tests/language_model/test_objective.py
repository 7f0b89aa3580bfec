"""The loss over a sample of the vocabulary against that over all of it."""

import math

import numpy as np
import pytest
import torch

from language_model.small_models import WITHOUT_ONEDNN, without_onednn
from lmcells.language_model.model import WordTable, full_losses, negatives, sampled_losses, softmax_losses
from lmcells.training.device_corpus import AliasTable

N_WORDS, WIDTH = 300, 8


@pytest.fixture
def table() -> WordTable:
    torch.manual_seed(0)
    table = WordTable(N_WORDS, WIDTH)
    torch.nn.init.normal_(table.vectors.weight)
    torch.nn.init.normal_(table.biases.weight)
    return table


@pytest.fixture
def drawn_from() -> tuple[AliasTable, torch.Tensor]:
    counts = np.arange(N_WORDS, 0, -1)
    return negatives(counts, exponent=0.75, device=torch.device("cpu"))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def states_and_words(n: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    draw = generator(1)
    return torch.randn(n, WIDTH, generator=draw), torch.randint(N_WORDS, (n,), generator=draw)


def sampled(
    table: WordTable,
    drawn_from: tuple[AliasTable, torch.Tensor],
    n: int,
    *,
    seed: int,
    states: torch.Tensor,
    words: torch.Tensor,
) -> torch.Tensor:
    distribution, log_chance = drawn_from
    drawn = distribution.draw((n,), generator(seed))
    return sampled_losses(table, states, words, drawn=drawn, log_chance=log_chance)


def test_chances_add_to_one(drawn_from: tuple[AliasTable, torch.Tensor]) -> None:
    assert float(drawn_from[1].exp().sum()) == pytest.approx(1.0, rel=1e-5)


def test_a_large_sample_gives_the_loss_over_the_whole_vocabulary(
    table: WordTable, drawn_from: tuple[AliasTable, torch.Tensor]
) -> None:
    states, words = states_and_words()
    expected = full_losses(table, states, words)
    found = sampled(table, drawn_from, 200_000, seed=2, states=states, words=words)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_the_estimate_of_the_denominator_has_no_bias(
    table: WordTable, drawn_from: tuple[AliasTable, torch.Tensor]
) -> None:
    states, words = states_and_words(10)
    right = table.logits(states).gather(1, words.unsqueeze(1)).squeeze(1)
    estimates = [
        (sampled(table, drawn_from, 50, seed=seed, states=states, words=words) + right).exp()
        for seed in range(800)
    ]
    mean = torch.stack(estimates).mean(dim=0)
    torch.testing.assert_close(mean, table.logits(states).exp().sum(dim=1), rtol=0.15, atol=0.0)


def test_gradients_are_those_of_the_whole_vocabulary(
    table: WordTable, drawn_from: tuple[AliasTable, torch.Tensor]
) -> None:
    states, words = states_and_words()
    full_losses(table, states, words).mean().backward()
    expected = table.vectors.weight.grad
    assert expected is not None
    table.vectors.weight.grad = None
    sampled(table, drawn_from, 100_000, seed=3, states=states, words=words).mean().backward()
    found = table.vectors.weight.grad
    assert found is not None
    assert float((found - expected).norm() / expected.norm()) < 0.05


def test_a_sample_of_the_right_word_alone_leaves_no_loss_and_a_finite_gradient(table: WordTable) -> None:
    states, _ = states_and_words(3)
    words = torch.full((3,), 7)
    losses = sampled_losses(table, states, words, drawn=torch.full((5,), 7), log_chance=torch.zeros(N_WORDS))
    losses.sum().backward()
    assert losses.tolist() == [0.0, 0.0, 0.0]
    assert table.vectors.weight.grad is not None
    assert table.vectors.weight.grad.isfinite().all()


def gradients_of(table: WordTable, states: torch.Tensor, losses: torch.Tensor) -> list[torch.Tensor]:
    """Of a weighted sum of losses, in which a loss can have no weight at all."""
    weights = torch.linspace(0, 1, losses.shape[0])
    inputs = (states, table.vectors.weight, table.biases.weight)
    return list(torch.autograd.grad((losses * weights).sum(), inputs))


def test_the_losses_of_training_and_their_gradients_are_the_exact_ones(table: WordTable) -> None:
    states, words = states_and_words()
    states.requires_grad_()
    exact, found = full_losses(table, states, words), softmax_losses(table, states, words)
    torch.testing.assert_close(found, exact)
    for one, other in zip(
        gradients_of(table, states, found), gradients_of(table, states, exact), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@WITHOUT_ONEDNN
def test_the_losses_of_training_are_nearly_the_same_in_bf16(table: WordTable) -> None:
    states, words = states_and_words()
    states.requires_grad_()
    exact = full_losses(table, states, words)
    with without_onednn():
        with torch.autocast("cpu", torch.bfloat16):
            found = softmax_losses(table, states, words)
        gradients = gradients_of(table, states, found)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)
    for one, other in zip(gradients, gradients_of(table, states, exact), strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.02


def test_a_word_that_seems_impossible_has_a_finite_loss(table: WordTable) -> None:
    states = torch.zeros(1, WIDTH, requires_grad=True)
    with torch.no_grad():
        table.biases.weight[3] = -1e4
    losses = softmax_losses(table, states, torch.tensor([3]))
    losses.sum().backward()
    assert float(losses.detach()) > 80
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_measuring_in_parts_changes_nothing(table: WordTable, monkeypatch: pytest.MonkeyPatch) -> None:
    states, words = states_and_words()
    at_once = full_losses(table, states, words)
    monkeypatch.setattr("lmcells.language_model.model._LOGITS_AT_ONCE", 7 * N_WORDS)
    torch.testing.assert_close(full_losses(table, states, words), at_once)


def test_a_table_begins_with_the_words_frequencies() -> None:
    table = WordTable(3, WIDTH)
    table.start_from(np.array([6, 3, 1]))
    assert table.logits(torch.zeros(1, WIDTH)).softmax(dim=-1)[0].tolist() == pytest.approx([0.6, 0.3, 0.1])


def test_a_table_that_knows_nothing_has_the_loss_of_even_chances() -> None:
    table = WordTable(N_WORDS, WIDTH)
    losses = full_losses(table, torch.zeros(4, WIDTH), torch.arange(4))
    assert losses.tolist() == pytest.approx([math.log(N_WORDS)] * 4)
