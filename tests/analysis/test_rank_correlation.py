"""Rank correlation: equal to scipy's, blind to the scale, and silent where there is nothing to say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.analysis.rank_correlation import rank_correlation

NUMBERS = st.lists(
    st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.integers(-5, 5)), min_size=5, max_size=30
)


@settings(deadline=None)  # scipy is imported first
@given(NUMBERS)
def test_it_is_that_of_scipy(rows: list[tuple[int, int, int]]) -> None:
    spearmanr = pytest.importorskip("scipy.stats").spearmanr
    one, other, _ = np.array(rows).T
    found = rank_correlation(one, other)
    if found is None:
        assert np.ptp(one) == 0 or np.ptp(other) == 0
    else:
        assert found.rho == pytest.approx(spearmanr(one, other).statistic, abs=1e-9)
        assert -1 <= found.low <= found.rho + 1e-9
        assert found.rho - 1e-9 <= found.high <= 1


def test_only_the_order_matters() -> None:
    one = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    other = np.array([3.0, 1.0, 2.0, 0.0, 5.0])
    assert rank_correlation(one, other) == rank_correlation(np.exp(one), other**3)


def test_what_a_third_explains_is_taken_out() -> None:
    draw = np.random.default_rng(0)
    cause = draw.normal(size=2000)
    one, other = cause + draw.normal(size=2000), cause + draw.normal(size=2000)
    plain, partial = rank_correlation(one, other), rank_correlation(one, other, given=cause)
    assert plain is not None
    assert partial is not None
    assert plain.low > 0.3
    assert partial.low < 0 < partial.high


def test_nothing_is_said_of_few_pairs_or_of_constants() -> None:
    assert rank_correlation(np.arange(4), np.arange(4)) is None
    assert rank_correlation(np.arange(6), np.ones(6)) is None
    assert rank_correlation(np.arange(6), np.arange(6), given=np.arange(6)) is None
