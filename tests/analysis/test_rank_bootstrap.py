"""Rank correlations of resampled rows: scipy's numbers, and intervals that hold what they should."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from lmcells.analysis.rank_bootstrap import RankBootstrap, _correlations
from lmcells.analysis.rank_correlation import rank_correlation

Floats = npt.NDArray[np.float64]
tables = arrays(np.float64, st.tuples(st.integers(5, 30), st.just(3)), elements=st.integers(0, 6).map(float))


def related(n: int, *, seed: int) -> Floats:
    """Two columns that share a third, and nothing else."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=n)
    return np.column_stack(
        [shared + random.normal(size=n), np.exp(shared + random.normal(size=n)), np.round(shared, 1)]
    )


@given(tables)
def test_the_estimates_are_those_of_scipy_also_with_ties(table: Floats) -> None:
    found = RankBootstrap.of(table, n_resamples=2, random=0).whole
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
    found = _correlations(groups, drawn)
    if np.ptp(rows[:, 0]) and np.ptp(rows[:, 1]):
        expected = stats.spearmanr(rows[:, 0], rows[:, 1]).statistic
        assert found[0, 1] == pytest.approx(expected, abs=1e-9)


def test_what_a_third_column_explains_can_be_taken_out() -> None:
    columns = related(2_000, seed=0)
    bootstrap = RankBootstrap.of(columns, n_resamples=200, random=0)
    plain, partial = bootstrap.interval(0, 1), bootstrap.interval(0, 1, given=2)
    assert plain is not None
    assert partial is not None
    assert plain.low > 0.4
    assert partial.low < 0.05
    expected = rank_correlation(columns[:, 0], columns[:, 1], given=columns[:, 2])
    assert expected is not None
    assert partial.estimate == pytest.approx(expected.rho)
    assert partial.low == pytest.approx(expected.low, abs=0.02)
    assert partial.high == pytest.approx(expected.high, abs=0.02)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    truth = stats.spearmanr(*related(200_000, seed=1)[:, :2].T).statistic
    covered = 0
    for seed in range(100):
        interval = RankBootstrap.of(related(80, seed=seed), n_resamples=200, random=seed).interval(0, 1)
        assert interval is not None
        covered += interval.low <= truth <= interval.high
    assert 86 <= covered <= 100


def test_what_does_not_vary_or_is_too_little_says_nothing() -> None:
    constant = np.column_stack([np.arange(9.0), np.ones(9), np.arange(9.0) ** 2])
    bootstrap = RankBootstrap.of(constant, n_resamples=20, random=0)
    assert bootstrap.interval(0, 1) is None
    assert bootstrap.interval(0, 1, given=2) is None
    rho = bootstrap.interval(0, 2)
    assert rho is not None
    assert (rho.estimate, rho.low, rho.high) == pytest.approx((1, 1, 1))
    for n in range(5):
        assert RankBootstrap.of(constant[:n], n_resamples=20, random=0).interval(0, 2) is None
