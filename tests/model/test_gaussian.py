import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Independent, Normal
from torch.distributions import kl_divergence as torch_kl_divergence

from lmcells.model import Gaussian, kl_divergence

LOG_VARIANCES = st.floats(-8, 8)
MEANS = st.lists(st.floats(-5, 5), min_size=3, max_size=3)


def gaussian(mean: list[float], log_variance: float) -> Gaussian:
    return Gaussian(torch.tensor(mean), torch.tensor(log_variance))


def random_gaussian(*shape: int, dtype: torch.dtype = torch.float64, requires_grad: bool = False) -> Gaussian:
    mean = torch.randn(*shape, 7, dtype=dtype, requires_grad=requires_grad)
    return Gaussian(mean, torch.randn(*shape, dtype=dtype, requires_grad=requires_grad))


def as_distribution(g: Gaussian) -> Independent:
    deviation = (g.log_variance / 2).exp().unsqueeze(-1).expand_as(g.mean)
    return Independent(Normal(g.mean, deviation), 1)


def test_divergence_agrees_with_torch_distributions() -> None:
    torch.manual_seed(0)
    q, p = random_gaussian(4, 5), random_gaussian(4, 5)
    expected = torch_kl_divergence(as_distribution(q), as_distribution(p))
    torch.testing.assert_close(kl_divergence(q, p), expected)


def test_divergence_broadcasts_over_batch_dimensions() -> None:
    torch.manual_seed(0)
    q, p = random_gaussian(4, 1), random_gaussian(5)
    assert kl_divergence(q, p).shape == (4, 5)
    one = kl_divergence(Gaussian(q.mean[2, 0], q.log_variance[2, 0]), Gaussian(p.mean[3], p.log_variance[3]))
    torch.testing.assert_close(kl_divergence(q, p)[2, 3], one)


@given(MEANS, LOG_VARIANCES)
def test_divergence_from_itself_is_zero(mean: list[float], log_variance: float) -> None:
    assert kl_divergence(gaussian(mean, log_variance), gaussian(mean, log_variance)).item() == 0


@given(MEANS, LOG_VARIANCES, MEANS, LOG_VARIANCES)
def test_divergence_is_never_negative(m: list[float], v: float, n: list[float], w: float) -> None:
    assert kl_divergence(gaussian(m, v), gaussian(n, w)).item() >= -1e-5


def test_divergence_has_the_right_gradient() -> None:
    torch.manual_seed(0)
    q, p = random_gaussian(3, requires_grad=True), random_gaussian(3, requires_grad=True)

    def divergence(*values: Tensor) -> Tensor:
        return kl_divergence(Gaussian(*values[:2]), Gaussian(*values[2:]))

    assert torch.autograd.gradcheck(divergence, (q.mean, q.log_variance, p.mean, p.log_variance))


def test_divergence_of_bf16_parameters_is_computed_in_float32() -> None:
    torch.manual_seed(0)
    q, p = random_gaussian(3, dtype=torch.bfloat16), random_gaussian(3, dtype=torch.bfloat16)
    divergence = kl_divergence(q, p)
    assert divergence.dtype == torch.float32
    exact = kl_divergence(q.at_least_float32(), p.at_least_float32())
    torch.testing.assert_close(divergence, exact, rtol=0, atol=0)


@pytest.mark.parametrize("of_q", [-30.0, 0.0, 30.0])
@pytest.mark.parametrize("of_p", [-30.0, 0.0, 30.0])
def test_divergence_and_gradient_are_finite_at_extreme_variances(of_q: float, of_p: float) -> None:
    torch.manual_seed(0)
    values = [torch.randn(7), torch.tensor(of_q), torch.randn(7), torch.tensor(of_p)]
    leaves = [value.requires_grad_() for value in values]
    divergence = kl_divergence(Gaussian(*leaves[:2]), Gaussian(*leaves[2:]))
    assert divergence.isfinite()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(divergence, leaves))


def test_a_log_variance_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(4, 1\).*needs \(4,\)"):
        Gaussian(torch.zeros(4, 7), torch.zeros(4, 1))
