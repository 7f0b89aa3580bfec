import math

import pytest
import torch
from torch import Tensor

import lmcells.model.moments
from lmcells.model import Gaussian, Moments, expected_divergence, kl_divergence
from lmcells.model.moments import blocked_moments, mixture_moments, row_products
from lmcells.model.networks import GaussianHeads
from model.tiny import tiny_draws, tiny_model

FLOOR = 1e-3


def random_mixtures(n_mixtures: int = 9, n_components: int = 4, dim: int = 6) -> Gaussian:
    torch.manual_seed(0)
    mean = torch.randn(n_mixtures, n_components, dim, dtype=torch.float64)
    return Gaussian(mean, torch.randn(n_mixtures, n_components, dtype=torch.float64))


def assert_same_moments(found: Moments, expected: Moments) -> None:
    for name in ("a0", "a1", "a2", "a3"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


def assert_same_gradients(found: Tensor, expected: Tensor, leaves: list[Tensor]) -> None:
    weight = torch.randn_like(found)
    of_found, of_expected = (
        torch.autograd.grad((value * weight).sum(), leaves, retain_graph=True, materialize_grads=True)
        for value in (found, expected)
    )
    torch.testing.assert_close(of_found, of_expected)


def random_values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_expected_divergence_is_the_mean_over_components() -> None:
    mixtures = random_mixtures()
    q = Gaussian(torch.randn(3, 6, dtype=torch.float64), torch.randn(3, dtype=torch.float64))
    index = torch.randint(9, (3, 5))
    found = expected_divergence(q, mixture_moments(mixtures, variance_floor=FLOOR), index)
    for row in range(3):
        for column in range(5):
            words = index[row, column]
            raised = torch.log(mixtures.log_variance[words].exp() + FLOOR)
            each = kl_divergence(
                Gaussian(q.mean[row], q.log_variance[row]), Gaussian(mixtures.mean[words], raised)
            )
            torch.testing.assert_close(found[row, column], each.mean())


def test_projecting_the_tables_first_gives_the_same_moments() -> None:
    model = tiny_model()
    draws = tiny_draws(model.config)
    words = torch.arange(13).unsqueeze(1).expand_as(draws.sections)
    paired = mixture_moments(model.prior(words, draws.sections), variance_floor=FLOOR)
    projected = model.prior.moments(draws, variance_floor=FLOOR)
    assert_same_moments(projected, paired)


@pytest.mark.parametrize("block", [1, 4, 9, 100])
@pytest.mark.parametrize(("floor", "keeps_all"), [(0.0, True), (1e-3, True), (1e-3, False)])
def test_moments_in_blocks_are_those_of_all_words_at_once(
    block: int, floor: float, keeps_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmcells.model.moments, "_WORD_BLOCK", block)
    torch.manual_seed(0)
    from_words, from_metadata = random_values(9, 3), random_values(5, 3)
    heads = GaussianHeads(3, cell_dim=6).double()
    sections = torch.randint(5, (9, 4), dtype=torch.int32)
    kept = None if keeps_all else torch.rand(9, 4, 3) < 0.7
    found = blocked_moments(from_words, from_metadata, sections, kept, heads=heads, variance_floor=floor)
    hidden = (from_words.unsqueeze(1) + from_metadata[sections]).relu()
    if kept is not None:
        hidden = hidden * kept
    expected = mixture_moments(heads(hidden), variance_floor=floor)
    leaves = [from_words, from_metadata, *heads.parameters()]
    assert_same_moments(found, expected)
    for name in ("a0", "a1", "a2", "a3"):
        assert_same_gradients(getattr(found, name), getattr(expected, name), leaves)


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_row_products_are_those_of_rows_written_out(
    block: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmcells.model.moments, "_QUERY_BLOCK", block)
    torch.manual_seed(0)
    query, table = random_values(7, 3), random_values(11, 3)
    index = torch.randint(8, (7, 5), dtype=dtype)  # three rows of the table are never asked for
    found, expected = row_products(query, table, index), torch.einsum("bd,bkd->bk", query, table[index])
    torch.testing.assert_close(found, expected)
    assert_same_gradients(found, expected, [query, table])


@pytest.mark.usefixtures("bf16_without_amx")
def test_autocast_does_not_reach_the_moments() -> None:
    """The terms cancel: in bf16 the error would be of the size of the divergence."""
    torch.manual_seed(0)
    from_words, from_metadata, sections = torch.randn(50, 16), torch.randn(7, 16), torch.randint(7, (50, 10))
    heads, q = GaussianHeads(16, cell_dim=100), Gaussian(torch.randn(8, 100), torch.randn(8))
    index = torch.randint(50, (8, 6))

    def divergence() -> Tensor:
        moments = blocked_moments(from_words, from_metadata, sections, heads=heads, variance_floor=FLOOR)
        return expected_divergence(q, moments, index)

    exact = divergence()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(divergence(), exact)


def test_moments_of_rounded_components_are_exact() -> None:
    torch.manual_seed(0)
    components = Gaussian(10 * torch.randn(20, 10, 100).bfloat16(), torch.randn(20, 10).bfloat16())
    q = Gaussian(components.mean[:, 0], components.log_variance[:, 0])
    index = torch.arange(20).unsqueeze(1)
    found = expected_divergence(q, mixture_moments(components, variance_floor=0.0), index)
    assert found.dtype == torch.float32
    wide = Gaussian(components.mean.double(), components.log_variance.double())
    expected = expected_divergence(
        Gaussian(q.mean.double(), q.log_variance.double()), mixture_moments(wide, variance_floor=0.0), index
    )
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("of_q", [-30.0, 30.0])
@pytest.mark.parametrize("of_p", [-200.0, -30.0, 30.0, 200.0])
def test_the_floor_keeps_extreme_variances_finite(of_q: float, of_p: float) -> None:
    torch.manual_seed(0)
    mean = torch.randn(4, 3, 6, requires_grad=True)
    log_variance = torch.full((4, 3), of_p, requires_grad=True)
    moments = mixture_moments(Gaussian(mean, log_variance), variance_floor=FLOOR)
    assert moments.a3.min() >= math.log(FLOOR) - 1e-6
    q_mean, q_log_variance = torch.randn(2, 6, requires_grad=True), torch.full((2,), of_q, requires_grad=True)
    q, index = Gaussian(q_mean, q_log_variance), torch.tensor([[0, 1], [2, 3]])
    divergence = expected_divergence(q, moments, index)
    assert divergence.isfinite().all()
    leaves = [mean, log_variance, q_mean, q_log_variance]
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(divergence.sum(), leaves))
