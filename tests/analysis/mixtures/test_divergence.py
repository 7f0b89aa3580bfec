"""Divergences between mixtures: draws against closed forms and quadrature, and what each approximation promises."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from analysis.random_mixtures import mixtures, random_mixture
from lmcells.analysis.mixtures import (
    GaussianMixture,
    MonteCarlo,
    component_divergences,
    convex_bound,
    divergences,
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
    return GaussianMixture(
        np.repeat(mixture.weights / n, n), np.repeat(mixture.means, n, 0), np.repeat(mixture.variances, n)
    )


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


@pytest.mark.parametrize("seed", range(4))
def test_draws_agree_with_quadrature_within_their_error(seed: int) -> None:
    p, q = random_mixture(seed, n=3, dim=1), random_mixture(seed + 100, n=2, dim=1)
    found = sampled_divergence(p, q, n_samples=20_000, random=seed)
    assert found.n_samples == 20_000
    assert 0 < found.standard_error < 0.1 * max(found.value, 1)
    assert within(found, on_the_line(p, q))


def test_the_error_covers_the_truth_as_often_as_it_should() -> None:
    p, q = random_mixture(1, n=3, dim=1), random_mixture(2, n=2, dim=1)
    truth = on_the_line(p, q)
    found = [sampled_divergence(p, q, n_samples=500, random=seed) for seed in range(200)]
    covered = np.mean([abs(each.value - truth) < 1.96 * each.standard_error for each in found])
    assert 0.88 < covered <= 0.99


def test_split_gaussians_have_the_closed_form_in_many_dimensions() -> None:
    random = np.random.default_rng(0)
    p, q = single(random.normal(size=100), 0.7), single(random.normal(scale=0.3, size=100), 0.8)
    expected = sampled_divergence(p, q).value
    assert within(sampled_divergence(split(p, 3), split(q, 2), random=1), expected)
    assert within(entropy(split(p, 3), random=1), float(50 * np.log(2 * np.pi * np.e * 0.7)))


@settings(deadline=None, max_examples=40)
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
    assert within(entropy(p, n_samples=20_000), float(truth))
    one = single([1.0, 2.0], 0.5)
    assert entropy(one) == MonteCarlo(
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
    found = entropy(p, n_samples=4_000)
    assert within(found, float(plain.mean())) or abs(found.value - plain.mean()) < 4 * plain.std() / np.sqrt(
        4_000
    )
    assert found.standard_error < 0.5 * plain.std() / np.sqrt(4_000)


def test_all_divergences_of_several_mixtures_go_both_ways() -> None:
    three = [random_mixture(seed, n=seed + 1, dim=2) for seed in range(3)]
    found = divergences(three, n_samples=4_000, random=0)
    assert set(found) == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    for (p, q), divergence in found.items():
        alone = sampled_divergence(three[p], three[q], n_samples=4_000, random=9)
        error = np.hypot(alone.standard_error, divergence.sampled.standard_error)
        assert abs(alone.value - divergence.sampled.value) <= 4 * error
        assert divergence.matched == matched_bound(three[p], three[q])
        assert divergence.to_dict()["sampled"]["n_samples"] == 4_000


def test_large_tables_are_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = random_mixture(0, n=20, dim=3), random_mixture(1, n=30, dim=3)
    measures = (matched_bound, variational_approximation, convex_bound)
    whole = [measure(p, q) for measure in measures]
    monkeypatch.setattr("lmcells.analysis.mixtures._MOST_PAIRS", 64)
    assert [measure(p, q) for measure in measures] == pytest.approx(whole)


def test_mixtures_of_different_spaces_are_refused() -> None:
    for measure in (sampled_divergence, matched_bound, variational_approximation, convex_bound):
        with pytest.raises(ValueError, match="2 and 3 dimensions"):
            measure(random_mixture(0, n=2, dim=2), random_mixture(0, n=2, dim=3))


def test_one_draw_has_no_error_and_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 draws"):
        sampled_divergence(random_mixture(0, n=2, dim=2), random_mixture(1, n=2, dim=2), n_samples=1)
