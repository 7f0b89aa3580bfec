"""Rank correlations: the numbers of scipy, and intervals that hold."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.decomposition import PCA

from lmcells.analysis.statistics import RankCorrelations, principal_plane, rank_correlations
from lmcells.evaluation.intervals import Interval

Floats = npt.NDArray[np.float64]


tables = arrays(np.float64, st.tuples(st.integers(5, 30), st.just(3)), elements=st.integers(0, 6).map(float))


def correlations(table: Floats, *, n_resamples: int = 20, seed: int = 0) -> RankCorrelations:
    columns = dict(zip("abc", table.T, strict=True))
    return RankCorrelations.of(columns, n_resamples=n_resamples, random=np.random.default_rng(seed))


def related(n: int, *, seed: int) -> Floats:
    """Two columns that share a third, and nothing else."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=n)
    return np.column_stack(
        [shared + random.normal(size=n), np.exp(shared + random.normal(size=n)), np.round(shared, 1)]
    )


def said(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


@given(tables)
def test_the_estimates_are_those_of_scipy_also_with_ties(table: Floats) -> None:
    found = correlations(table, n_resamples=2).whole
    for one in range(3):
        for other in range(3):
            if np.ptp(table[:, one]) and np.ptp(table[:, other]):
                expected = stats.spearmanr(table[:, one], table[:, other]).statistic
                assert found[one, other] == pytest.approx(expected, abs=1e-9)
            else:
                assert np.isnan(found[one, other])


@given(tables, st.integers(0, 99))
def test_a_resample_is_the_same_as_writing_its_rows_out(table: Floats, seed: int) -> None:
    drawn = np.bincount(
        np.random.default_rng(seed).integers(len(table), size=len(table)), minlength=len(table)
    )
    rows = np.repeat(table, drawn, axis=0)
    groups = [np.unique(column, return_inverse=True)[1] for column in table.T]
    found = rank_correlations(groups, drawn.astype(np.float64))
    if np.ptp(rows[:, 0]) and np.ptp(rows[:, 1]):
        expected = stats.spearmanr(rows[:, 0], rows[:, 1]).statistic
        assert found[0, 1] == pytest.approx(expected, abs=1e-9)


def test_only_the_order_matters() -> None:
    table = related(40, seed=3)
    moved = np.column_stack([np.exp(table[:, 0]), table[:, 1] ** 3, table[:, 2]])
    assert correlations(table).interval("a", "b") == correlations(moved).interval("a", "b")


def test_what_a_third_column_explains_can_be_taken_out() -> None:
    table = related(2_000, seed=0)
    found = correlations(table, n_resamples=200)
    plain, partial = said(found.interval("a", "b")), said(found.interval("a", "b", given="c"))
    assert plain.low > 0.4
    assert partial.low < 0 < partial.high
    one, other, given = (stats.rankdata(column) for column in table.T)
    residuals = [side - np.polyval(np.polyfit(given, side, 1), given) for side in (one, other)]
    assert partial.estimate == pytest.approx(np.corrcoef(*residuals)[0, 1])


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    truth = stats.spearmanr(*related(200_000, seed=1)[:, :2].T).statistic
    covered = 0
    for seed in range(60):
        interval = said(correlations(related(80, seed=seed), n_resamples=200, seed=seed).interval("a", "b"))
        covered += interval.low <= truth <= interval.high
    assert 51 <= covered <= 60


def test_rows_of_a_cluster_are_drawn_together() -> None:
    table = related(60, seed=5)
    clusters = np.repeat(np.arange(60), 25)  # each row 25 times: nothing new is known
    columns = dict(zip("abc", np.repeat(table, 25, axis=0).T, strict=True))
    together = RankCorrelations.of(
        columns, clusters=clusters, n_resamples=300, random=np.random.default_rng(0)
    )
    apart = RankCorrelations.of(columns, n_resamples=300, random=np.random.default_rng(0))
    once = said(correlations(table, n_resamples=300).interval("a", "b"))
    by_cluster, by_row = said(together.interval("a", "b")), said(apart.interval("a", "b"))
    assert (together.n, together.n_drawn) == (1_500, 60)
    assert by_cluster.standard_error == pytest.approx(once.standard_error, rel=0.2)
    assert by_row.standard_error < 0.5 * by_cluster.standard_error


def test_what_does_not_vary_or_is_too_little_says_nothing() -> None:
    constant = np.column_stack([np.arange(9.0), np.ones(9), np.arange(9.0) ** 2])
    found = correlations(constant)
    assert found.interval("a", "b") is None
    assert found.interval("a", "b", given="c") is None
    assert found.interval("a", "c", given="a") is None
    rho = said(found.interval("a", "c"))
    assert (rho.estimate, rho.low, rho.high) == pytest.approx((1, 1, 1))
    for n in range(5):
        assert correlations(constant[:n]).interval("a", "c") is None


@pytest.mark.parametrize(("n", "dim"), [(1, 3), (2, 1), (40, 5)])
def test_the_principal_plane_is_that_of_scikit_learn(n: int, dim: int) -> None:
    points = np.random.default_rng(0).normal(size=(n, dim)) * np.arange(1, dim + 1)
    plane = principal_plane(points)
    assert plane.shape == (n, 2)
    assert (plane.max(axis=0) >= -plane.min(axis=0)).all()
    if n > dim > 1:
        np.testing.assert_allclose(np.abs(plane), np.abs(PCA(2).fit_transform(points)), atol=1e-9)
