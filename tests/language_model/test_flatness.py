"""A loss is flat when it no longer falls by more than a small part of itself."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.language_model.train import Flatness


def checks_until_flat(losses: Sequence[float], *, tolerance: float = 0.01, patience: int = 2) -> int | None:
    flatness = Flatness(tolerance=tolerance, patience=patience)
    for number, loss in enumerate(losses, start=1):
        flatness.add(loss)
        if flatness.is_flat:
            return number
    return None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([5.0, 4.0, 3.0, 2.0], None),
        ([5.0, 5.0, 5.0], 3),
        ([5.0, 4.99, 4.98], 3),  # too little
        ([5.0, 4.97, 4.94, 4.91, 4.88], None),  # little, but 1 % every second check
        ([5.0, 6.0, 4.0, 4.5, 4.6], 5),  # one check alone does not count
        ([5.0, float("inf"), float("inf")], 3),
    ],
)
def test_it_is_flat_after_so_many_checks_without_improvement(
    losses: list[float], expected: int | None
) -> None:
    assert checks_until_flat(losses) == expected


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30), st.integers(0, 29))
def test_a_restored_one_goes_on_as_if_nothing_had_been(losses: list[float], split: int) -> None:
    whole, before = (Flatness(tolerance=0.05, patience=3) for _ in range(2))
    for loss in losses[:split]:
        before.add(loss)
    after = Flatness(tolerance=0.05, patience=3)
    after.restore(before.state())
    lowest = [whole.add(loss) for loss in losses]
    assert lowest[split:] == [after.add(loss) for loss in losses[split:]]
    assert (after.is_flat, after.lowest, after.n_unimproved) == (
        whole.is_flat,
        whole.lowest,
        whole.n_unimproved,
    )
    assert whole.lowest == min(losses)


def test_a_check_that_does_not_count_can_only_improve() -> None:
    flatness = Flatness(tolerance=0.01, patience=1)
    for loss in (5.0, 5.0, 6.0):
        flatness.add(loss, counts=False)
    assert not flatness.is_flat
    assert flatness.n_unimproved == 0
    assert flatness.add(4.0, counts=False)
    flatness.add(4.0)
    assert flatness.is_flat
