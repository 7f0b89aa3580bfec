"""Grouping without sorting gives what sorting gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lmcells.corpus.assemble import stable_order
from lmcells.corpus.shard import distinct


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1))))
def test_distinct_agrees_with_unique(values: list[int]) -> None:
    hashes = np.array(values, np.uint64)
    first, inverse = distinct(hashes)
    _, expected = np.unique(hashes, return_index=True)
    assert first.tolist() == sorted(expected.tolist())
    assert hashes[first][inverse].tolist() == values


def test_distinct_agrees_with_unique_where_a_sample_is_taken_first() -> None:
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2**64, 60_000, np.uint64)
    hashes = words[np.minimum(generator.zipf(1.2, 300_000) - 1, words.size - 1)]
    first, inverse = distinct(hashes)
    _, expected = np.unique(hashes, return_index=True)
    assert np.array_equal(first, np.sort(expected))
    assert np.array_equal(hashes[first][inverse], hashes)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**31 - 1))))
def test_stable_order_agrees_with_argsort(values: list[int]) -> None:
    ids = np.array(values, np.int32)
    assert stable_order(ids).tolist() == np.argsort(ids, kind="stable").tolist()
