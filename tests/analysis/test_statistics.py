"""Rank correlations: the numbers of scipy, and intervals that hold."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.decomposition import PCA

from lmcells.analysis import Row
from lmcells.analysis.statistics import principal_plane, rank_correlations, rank_intervals, with_interval

Floats = npt.NDArray[np.float64]

tables = arrays(np.float64, st.tuples(st.integers(5, 30), st.just(3)), elements=st.integers(0, 6).map(float))


def correlate(
    table: Floats,
    given: str | None = None,
    *,
    n_resamples: int = 20,
    seed: int = 0,
    clusters: npt.NDArray[np.int64] | None = None,
) -> Row | None:
    """Of the columns a and b, at a fixed c where `given`; None where it is not defined."""
    question = ("a", "b", given)
    random = np.random.default_rng(seed)
    columns = dict(zip("abc", table.T, strict=True))
    found = rank_intervals(columns, [question], n_resamples=n_resamples, random=random, clusters=clusters)
    return found.get(question)


def known(interval: Row | None) -> Row:
    assert interval is not None
    return interval


def related(n: int, *, seed: int) -> Floats:
    """Two columns that share a third, and nothing else."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=n)
    return np.column_stack(
        [shared + random.normal(size=n), np.exp(shared + random.normal(size=n)), np.round(shared, 1)]
    )


def spearman(rows: Floats) -> float:
    return float(stats.spearmanr(rows[:, 0], rows[:, 1]).statistic)


@given(tables)
def test_the_estimates_are_those_of_scipy_also_with_ties(table: Floats) -> None:
    found = correlate(table, n_resamples=200)
    if np.ptp(table[:, 0]) and np.ptp(table[:, 1]):
        assert known(found).estimate == pytest.approx(spearman(table), abs=1e-9)
    else:
        assert found is None


@given(tables, st.integers(0, 99))
def test_a_resample_is_the_same_as_writing_its_rows_out(table: Floats, seed: int) -> None:
    draws = np.random.default_rng(seed).integers(len(table), size=len(table))
    drawn = np.bincount(draws, minlength=len(table))
    rows = np.repeat(table, drawn, axis=0)
    groups = [np.unique(column, return_inverse=True)[1] for column in table.T]
    found = rank_correlations(groups, drawn.astype(np.float64))
    if np.ptp(rows[:, 0]) and np.ptp(rows[:, 1]):
        assert found[0, 1] == pytest.approx(spearman(rows), abs=1e-9)


def test_only_the_order_matters() -> None:
    table = related(40, seed=3)
    moved = np.column_stack([np.exp(table[:, 0]), table[:, 1] ** 3, table[:, 2]])
    assert correlate(table) == correlate(moved)


def test_what_a_third_column_explains_can_be_taken_out() -> None:
    table = related(2_000, seed=0)
    plain, partial = (known(correlate(table, given, n_resamples=200)) for given in (None, "c"))
    assert plain.low > 0.4
    assert partial.low < 0 < partial.high
    one, other, given = (stats.rankdata(column) for column in table.T)
    residuals = [side - np.polyval(np.polyfit(given, side, 1), given) for side in (one, other)]
    assert partial.estimate == pytest.approx(np.corrcoef(*residuals)[0, 1])


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    truth = spearman(related(200_000, seed=1))
    found = [known(correlate(related(80, seed=seed), n_resamples=200, seed=seed)) for seed in range(60)]
    assert 51 <= sum(each.low <= truth <= each.high for each in found) <= 60


def test_rows_of_a_cluster_are_drawn_together() -> None:
    table = related(60, seed=5)
    copies, clusters = np.repeat(table, 25, axis=0), np.repeat(np.arange(60), 25)  # nothing new is known
    once, by_row = (known(correlate(each, n_resamples=300)) for each in (table, copies))
    by_cluster = known(correlate(copies, n_resamples=300, clusters=clusters))
    assert by_cluster.standard_error == pytest.approx(once.standard_error, rel=0.2)
    assert by_row.standard_error < 0.5 * by_cluster.standard_error


def test_what_does_not_vary_or_is_too_little_says_nothing() -> None:
    constant = np.column_stack([np.arange(9.0), np.ones(9), np.arange(9.0) ** 2])
    assert correlate(constant) is correlate(constant, "c") is None
    growing = constant[:, [0, 2, 0]]
    assert correlate(growing, "c") is None
    assert with_interval(known(correlate(growing))) == "1.00 [1.00, 1.00]"
    assert [correlate(growing[:n]) for n in range(5)] == [None] * 5


@pytest.mark.parametrize(("n", "dim"), [(1, 3), (2, 1), (40, 5)])
def test_the_principal_plane_is_that_of_scikit_learn(n: int, dim: int) -> None:
    points = np.random.default_rng(0).normal(size=(n, dim)) * np.arange(1, dim + 1)
    plane = principal_plane(points)
    assert plane.shape == (n, 2)
    assert (plane.max(axis=0) >= -plane.min(axis=0)).all()
    if n > dim > 1:
        np.testing.assert_allclose(np.abs(plane), np.abs(PCA(2).fit_transform(points)), atol=1e-9)
