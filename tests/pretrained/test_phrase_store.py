"""A store of phrases: what goes in comes out, rounded to four bits; and updating it with another."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.pretrained.phrase_store import PhraseStore, from_four_bits, to_four_bits
from lmcells.training.prototypes import Prototypes

DIM = 3
COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5), max_size=6)


def store_of(counts: dict[str, int], *, seed: int) -> PhraseStore:
    """A phrase that was seen n times has min(n, 3) prototypes."""
    draw = np.random.default_rng(seed)
    sizes = np.minimum(list(counts.values()), 3).astype(np.int64) if counts else np.zeros(0, np.int64)
    prototypes: npt.NDArray[np.float32] = draw.normal(size=(int(sizes.sum()), DIM)).astype(np.float32)
    prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
    return PhraseStore.of_prototypes(
        Prototypes(
            phrases=list(counts),
            counts=np.array(list(counts.values()), np.int64),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            prototypes=prototypes,
            shares=np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32),
            masked_span_center=np.full(DIM, seed, np.float32),
            phrase_center=np.full(DIM, -seed, np.float32),
        )
    )


@given(COUNTS, COUNTS)
def test_each_phrase_comes_whole_from_where_it_was_seen_more_often(
    own: dict[str, int], others: dict[str, int]
) -> None:
    store, other = store_of(own, seed=1), store_of(others, seed=2)
    updated = store.updated(other)
    assert updated.phrases == [*own, *(phrase for phrase in others if phrase not in own)]
    for phrase in updated.phrases:
        source = store if own.get(phrase, 0) > others.get(phrase, 0) else other
        expected, found = source.find((phrase,)), updated.find((phrase,))
        assert expected is not None
        assert found is not None
        assert found.count == expected.count
        np.testing.assert_array_equal(found.prototypes, expected.prototypes)
        np.testing.assert_array_equal(found.shares, expected.shares)
    assert updated.masked_span_center[0] == 1


@given(COUNTS, COUNTS)
def test_to_update_twice_changes_nothing(own: dict[str, int], others: dict[str, int]) -> None:
    other = store_of(others, seed=2)
    once = store_of(own, seed=1).updated(other)
    twice = once.updated(other)
    assert once.phrases == twice.phrases
    for name, array in once.arrays.items():
        np.testing.assert_array_equal(array, twice.arrays[name])
        assert array.dtype == twice.arrays[name].dtype


@given(COUNTS, st.integers(0, 20))
def test_a_trimmed_store_keeps_what_it_must_and_then_what_is_frequent(own: dict[str, int], most: int) -> None:
    store = store_of(own, seed=1)
    trimmed = store.trimmed(most, kept={"a", "b"})
    assert {"a", "b"} & {*own} <= {*trimmed.phrases}
    others = [own[phrase] for phrase in trimmed.phrases if phrase not in ("a", "b")]
    dropped = [own[phrase] for phrase in own if phrase not in trimmed.phrases]
    assert not (others and dropped) or min(others) >= max(dropped)
    assert not others or trimmed.arrays["offsets"][-1] <= most
    for phrase in trimmed.phrases:
        expected, found = store.find((phrase,)), trimmed.find((phrase,))
        assert expected is not None
        assert found is not None
        np.testing.assert_array_equal(found.prototypes, expected.prototypes)


@given(COUNTS, st.lists(st.text(alphabet="abcdef", min_size=1, max_size=1)))
def test_many_phrases_are_found_as_each_alone_is(own: dict[str, int], wanted: list[str]) -> None:
    store = store_of(own, seed=1)
    found = store.find_all([(phrase,) for phrase in wanted])
    assert [each is not None for each in found] == [phrase in own for phrase in wanted]
    for phrase, one in zip(wanted, found, strict=True):
        alone = store.find((phrase,))
        if one is not None and alone is not None:
            assert one.count == alone.count == own[phrase]
            np.testing.assert_array_equal(one.prototypes, alone.prototypes)
            np.testing.assert_array_equal(one.shares, alone.shares)


def unit_vectors(n: int, dim: int) -> npt.NDArray[np.float64]:
    rows = np.random.default_rng(3).normal(size=(n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("dim", [100, 99, 12])
def test_a_prototype_comes_back_nearly_where_it_was(dim: int) -> None:
    given = unit_vectors(500, dim)
    packed = to_four_bits(given)
    found = from_four_bits(packed, dim=dim)
    assert packed.shape == (500, (dim + 1) // 2)
    assert packed.dtype == np.uint8
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    cosines = (found * given).sum(axis=1)
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.93


def test_the_cosine_with_any_other_prototype_errs_by_a_hundredth() -> None:
    given, others = unit_vectors(500, 100), unit_vectors(50, 100)[::-1]
    errors = from_four_bits(to_four_bits(given), dim=100) @ others.T - given @ others.T
    assert errors.std() < 0.012


def test_rounding_twice_is_rounding_once() -> None:
    """Up to the length, which is made 1 again: so most levels, not all, are the same."""
    once = from_four_bits(to_four_bits(unit_vectors(200, 100)), dim=100)
    twice = from_four_bits(to_four_bits(once), dim=100)
    assert (once * twice).sum(axis=1).min() > 0.98


def test_no_prototypes_are_no_bytes() -> None:
    assert from_four_bits(to_four_bits(np.zeros((0, 7))), dim=7).shape == (0, 7)
