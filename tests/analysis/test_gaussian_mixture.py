"""Mixtures of Gaussians against scipy, scikit-learn, quadrature and closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from analysis.planted import mixtures, random_mixture
from lmcells.analysis.gaussian_mixture import (
    GaussianMixture,
    MonteCarlo,
    component_divergences,
    convex_bound,
    entropy,
    information,
    matched_bound,
    sampled_divergence,
    variational_approximation,
)
from lmcells.model.gaussian import Gaussian, kl_divergence


def single(mean: list[float], variance: float) -> GaussianMixture:
    return GaussianMixture([1.0], [mean], [variance])


def split(mixture: GaussianMixture, n: int) -> GaussianMixture:
    """The same density, each component written n times."""
    columns = (mixture.weights / n, mixture.means, mixture.variances)
    return GaussianMixture(*(np.repeat(column, n, axis=0) for column in columns))


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
    monkeypatch.setattr("lmcells.analysis.gaussian_mixture._MOST_PAIRS", 33)
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
    assert split(single([0.0, 0.0], 1.0), 4).n_effective == pytest.approx(4)


def within(found: MonteCarlo, expected: float) -> bool:
    return abs(found.value - expected) <= 4 * found.standard_error + 1e-9


def on_the_line(p: GaussianMixture, q: GaussianMixture) -> float:
    def integrand(x: float) -> float:
        log_p, log_q = p.log_density([[x]])[0], q.log_density([[x]])[0]
        return float(np.exp(log_p) * (log_p - log_q))

    return float(integrate.quad(integrand, -25, 25, limit=400)[0])


def test_single_gaussians_have_the_divergence_of_the_model() -> None:
    p, q = single([0.0, 1.0, 2.0], 0.5), single([1.0, 1.0, 0.0], 2.0)
    cells = [Gaussian(torch.tensor(each.means), torch.log(torch.tensor(each.variances))) for each in (p, q)]
    expected = float(kl_divergence(*cells)[0])
    assert sampled_divergence(p, q) == MonteCarlo(pytest.approx(expected), 0.0, 0)
    assert matched_bound(p, q) == pytest.approx(expected)
    assert variational_approximation(p, q) == pytest.approx(expected)
    assert convex_bound(p, q) == pytest.approx(expected)


def test_all_pairs_of_components_have_the_divergence_of_the_model() -> None:
    p, q = random_mixture(0, n=3, dim=4), random_mixture(1, n=5, dim=4)
    rows, columns = (
        Gaussian(torch.tensor(each.means), torch.log(torch.tensor(each.variances))) for each in (p, q)
    )
    rows = Gaussian(rows.mean[:, None], rows.log_variance[:, None])
    np.testing.assert_allclose(component_divergences(p, q), kl_divergence(rows, columns).numpy(), atol=1e-10)


def test_the_error_covers_the_truth_as_often_as_it_should() -> None:
    p, q = random_mixture(1, n=3, dim=1), random_mixture(2, n=2, dim=1)
    truth = on_the_line(p, q)
    found = [sampled_divergence(p, q, n_samples=500, random=seed) for seed in range(200)]
    covered = np.mean([abs(each.value - truth) < 1.96 * each.standard_error for each in found])
    assert 0.88 < covered <= 0.99
    many = sampled_divergence(p, q, n_samples=20_000)
    assert many.n_samples == 20_000
    assert 0 < many.standard_error < 0.1 * max(many.value, 1)
    assert within(many, truth)


def test_split_gaussians_have_the_closed_form_in_many_dimensions() -> None:
    random = np.random.default_rng(0)
    p, q = single(random.normal(size=100), 0.7), single(random.normal(scale=0.3, size=100), 0.8)
    expected = sampled_divergence(p, q).value
    assert within(sampled_divergence(split(p, 3), split(q, 2), random=1), expected)
    assert within(
        entropy(split(p, 3), information(split(p, 3), random=1)), float(50 * np.log(2 * np.pi * np.e * 0.7))
    )


@settings(max_examples=40)
@given(mixtures, st.integers(0, 1000))
def test_a_divergence_is_not_negative_and_bounded_from_above(p: GaussianMixture, seed: int) -> None:
    q = random_mixture(seed, n=3, dim=p.dim)
    found = sampled_divergence(p, q, n_samples=2_000, random=seed)
    assert found.value >= -4.5 * found.standard_error - 0.01
    assert found.value <= convex_bound(p, q) + 4.5 * found.standard_error + 0.01


@given(mixtures)
def test_a_mixture_is_at_no_distance_from_itself(p: GaussianMixture) -> None:
    assert sampled_divergence(p, p, n_samples=50).value == 0
    assert variational_approximation(p, p) == 0
    assert matched_bound(p, p) <= 1e-12  # each component matches itself, or a heavier one beside it
    assert convex_bound(p, p) >= -1e-12


def test_far_components_make_the_approximations_exact() -> None:
    p = GaussianMixture([0.3, 0.7], [[0.0], [100.0]], [1.0, 2.0])
    q = GaussianMixture([0.6, 0.4], [[0.5], [101.0]], [1.5, 1.0])
    truth = 0.3 * (0.5 * (np.log(1.5) + 1.25 / 1.5 - 1) + np.log(0.5))
    truth += 0.7 * (0.5 * (np.log(0.5) + 3.0 - 1) + np.log(1.75))
    assert matched_bound(p, q) == pytest.approx(truth)
    assert variational_approximation(p, q) == pytest.approx(truth)
    assert within(sampled_divergence(p, q, n_samples=20_000), truth)
    assert convex_bound(p, q) > 1_000


def test_the_matched_bound_is_no_bound_where_components_overlap() -> None:
    p = single([0.0, 0.0], 1.0)
    assert matched_bound(split(p, 4), p) == pytest.approx(-np.log(4))  # the truth is 0
    assert variational_approximation(split(p, 4), p) == pytest.approx(0)


def test_the_entropy_agrees_with_quadrature_and_with_the_closed_form() -> None:
    p = random_mixture(3, n=3, dim=1)
    truth = integrate.quad(
        lambda x: -float(np.exp(p.log_density([[x]])[0]) * p.log_density([[x]])[0]), -25, 25, limit=400
    )[0]
    assert within(entropy(p, information(p, n_samples=20_000)), float(truth))
    one = single([1.0, 2.0], 0.5)
    assert entropy(one, information(one)) == MonteCarlo(
        pytest.approx(stats.multivariate_normal([1, 2], 0.5 * np.eye(2)).entropy()), 0.0, 0
    )


def test_information_is_none_for_equal_components_and_all_for_far_ones() -> None:
    p = single([0.0, 0.0], 1.0)
    assert information(p) == MonteCarlo(0.0, 0.0, 0)
    assert information(split(p, 3)).value == pytest.approx(0, abs=1e-12)
    far = GaussianMixture([0.5, 0.5], [[0.0], [1000.0]], [1.0, 1.0])
    assert information(far).value == pytest.approx(np.log(2))


def test_entropy_is_drawn_with_a_small_error_in_many_dimensions() -> None:
    p = random_mixture(0, n=5, dim=100, spread=0.05)
    plain = -p.log_density(p.sample(4_000, random=0))
    found = entropy(p, information(p, n_samples=4_000))
    error = plain.std() / np.sqrt(4_000)
    assert abs(found.value - plain.mean()) < 4 * error
    assert found.standard_error < 0.5 * error


def test_large_tables_are_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = random_mixture(0, n=20, dim=3), random_mixture(1, n=30, dim=3)
    measures = (matched_bound, variational_approximation, convex_bound)
    whole = [measure(p, q) for measure in measures]
    monkeypatch.setattr("lmcells.analysis.gaussian_mixture._MOST_PAIRS", 64)
    assert [measure(p, q) for measure in measures] == pytest.approx(whole)
