"""Mixtures of isotropic Gaussians against scipy, scikit-learn, quadrature and closed forms."""

import numpy as np
import pytest
import sklearn.mixture
from hypothesis import given, settings
from scipy import integrate, stats

from analysis.random_mixtures import mixtures, random_mixture
from lmcells.analysis.mixtures import GaussianMixture


@settings(deadline=None)
@given(mixtures)
def test_the_log_density_is_that_of_scipy(mixture: GaussianMixture) -> None:
    points = 3 * np.random.default_rng(0).normal(size=(20, mixture.dim))
    expected = sum(
        weight * stats.multivariate_normal(mean, variance * np.eye(mixture.dim)).pdf(points)
        for weight, mean, variance in zip(mixture.weights, mixture.means, mixture.variances, strict=True)
    )
    found = mixture.log_density(points)
    possible = expected > 1e-250
    np.testing.assert_allclose(found[possible], np.log(expected[possible]), rtol=1e-9, atol=1e-9)


def test_the_log_density_is_that_of_scikit_learn() -> None:
    mixture = random_mixture(3, n=4, dim=6)
    other = sklearn.mixture.GaussianMixture(4, covariance_type="spherical")
    other.weights_, other.means_, other.covariances_ = mixture.weights, mixture.means, mixture.variances
    other.precisions_cholesky_ = 1 / np.sqrt(mixture.variances)
    points = mixture.sample(200, random=0)
    np.testing.assert_allclose(mixture.log_density(points), other.score_samples(points), rtol=1e-10)


def test_the_density_integrates_to_one() -> None:
    line, plane = random_mixture(0, n=3, dim=1), random_mixture(1, n=3, dim=2, spread=1.0)
    assert integrate.quad(lambda x: float(np.exp(line.log_density([[x]]))[0]), -30, 30, limit=200)[0] == (
        pytest.approx(1, abs=1e-8)
    )
    grid = np.linspace(-14, 14, 281)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    assert np.exp(plane.log_density(points)).sum() * (grid[1] - grid[0]) ** 2 == pytest.approx(1, abs=1e-8)


def test_points_far_away_have_a_finite_log_density() -> None:
    mixture = random_mixture(2, n=3, dim=100)
    far = mixture.log_density(np.full((1, 100), 1e4))
    assert np.isfinite(far).all()
    assert far[0] < -1e8


def test_a_mixture_far_from_the_origin_has_the_density_of_one_near_it() -> None:
    near = random_mixture(5, n=3, dim=4)
    far = GaussianMixture(near.weights, near.means + 1e6, near.variances)
    points = near.sample(50, random=0)
    np.testing.assert_allclose(far.log_density(points + 1e6), near.log_density(points), atol=1e-6)


def test_many_points_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = random_mixture(4, n=5, dim=3)
    points = mixture.sample(101, random=1)
    whole = mixture.log_density(points)
    monkeypatch.setattr("lmcells.analysis.mixtures._MOST_PAIRS", 33)
    np.testing.assert_allclose(mixture.log_density(points), whole, rtol=1e-12)


def test_a_large_sample_has_the_moments_of_the_mixture() -> None:
    mixture = random_mixture(6, n=4, dim=3)
    drawn = mixture.sample(200_000, random=0)
    deviations = np.sqrt(np.diag(mixture.covariance))
    assert (np.abs(drawn.mean(axis=0) - mixture.mean) < 4 * deviations / np.sqrt(len(drawn))).all()
    np.testing.assert_allclose(np.cov(drawn.T), mixture.covariance, rtol=0.03, atol=0.05)
    assert drawn.var(axis=0).mean() == pytest.approx(mixture.total_variance, rel=0.01)


def test_components_are_drawn_by_their_weights() -> None:
    mixture = random_mixture(7, n=3, dim=2)
    points, components = mixture.sample_with_components(50_000, random=0)
    shares = np.bincount(components, minlength=3) / components.size
    np.testing.assert_allclose(shares, mixture.weights, atol=0.01)
    third = points[components == 2]
    np.testing.assert_allclose(third.mean(axis=0), mixture.means[2], atol=0.1)
    np.testing.assert_allclose(third.var(axis=0), mixture.variances[2], rtol=0.1)


def test_the_same_seed_draws_the_same_and_a_generator_goes_on() -> None:
    mixture = random_mixture(8, n=2, dim=2)
    np.testing.assert_array_equal(mixture.sample(5, random=3), mixture.sample(5, random=3))
    random = np.random.default_rng(3)
    first, second = mixture.sample(5, random=random), mixture.sample(5, random=random)
    np.testing.assert_array_equal(first, mixture.sample(5, random=3))
    assert (first != second).any()


@given(mixtures)
def test_the_total_variance_is_the_mean_of_the_diagonal(mixture: GaussianMixture) -> None:
    assert mixture.total_variance == pytest.approx(np.trace(mixture.covariance) / mixture.dim)
    assert mixture.total_variance >= mixture.within
    assert 1 - 1e-9 <= mixture.n_effective <= len(mixture) + 1e-9


def test_equal_weights_are_as_many_effective_components() -> None:
    assert GaussianMixture(np.full(4, 0.25), np.zeros((4, 2)), np.ones(4)).n_effective == pytest.approx(4)


def test_reducing_keeps_the_heaviest_and_their_proportions() -> None:
    mixture = GaussianMixture([0.2, 0.5, 0.3], [[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    reduced = mixture.reduced(2)
    np.testing.assert_allclose(reduced.weights, [0.625, 0.375])
    np.testing.assert_array_equal(reduced.means, [[1.0], [2.0]])
    np.testing.assert_array_equal(reduced.variances, [2.0, 3.0])
    assert len(mixture.reduced(99)) == 3


def test_a_mixture_as_plain_data_makes_the_same_mixture() -> None:
    mixture = random_mixture(9, n=3, dim=2)
    again = GaussianMixture(**mixture.to_dict())
    np.testing.assert_array_equal(again.means, mixture.means)
    assert again.covariance == pytest.approx(mixture.covariance)


@pytest.mark.parametrize(
    ("weights", "means", "variances", "message"),
    [
        ([0.5, 0.4], [[0.0], [1.0]], [1.0, 1.0], "add to 1"),
        ([1.5, -0.5], [[0.0], [1.0]], [1.0, 1.0], "above 0"),
        ([0.5, 0.5], [[0.0], [1.0]], [1.0, 0.0], "variances must be above 0"),
        ([0.5, 0.5], [[0.0]], [1.0, 1.0], "2 components need"),
        ([1.0], [[0.0]], [1.0, 1.0], "one number a component"),
        ([], np.zeros((0, 2)), [], "one number a component"),
    ],
)
def test_what_is_no_mixture_is_refused(
    weights: list[float], means: list[list[float]], variances: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianMixture(weights, means, variances)


def test_points_of_another_space_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs \(n, 2\)"):
        random_mixture(0, n=2, dim=2).log_density(np.zeros((3, 5)))
