"""Labels: whatever the points, nothing that is placed covers anything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.analysis.figure_labels import Placement, overlapping, place_labels

BOUNDS = (200.0, 150.0)
RADIUS = 2.0


def boxes_of(placed: list[Placement | None], sizes: np.ndarray) -> np.ndarray:
    return np.array(
        [
            (each.x, each.y, each.x + width, each.y + height)
            for each, (width, height) in zip(placed, sizes, strict=True)
            if each is not None
        ]
    ).reshape(-1, 4)


POINTS = st.tuples(st.floats(0, BOUNDS[0]), st.floats(0, BOUNDS[1]))
SIZES = st.tuples(st.floats(5, 60), st.floats(4, 10))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(POINTS, SIZES), min_size=1, max_size=40))
def test_no_label_covers_another_a_point_a_leader_or_the_edge(
    labels: list[tuple[tuple[float, float], tuple[float, float]]],
) -> None:
    points, sizes = (np.array(values) for values in zip(*labels, strict=True))
    placed = place_labels(points, sizes, bounds=BOUNDS, radii=[RADIUS] * len(points))
    boxes = boxes_of(placed, sizes)
    assert overlapping(boxes) == []
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= BOUNDS).all()
    for left, below, right, above in boxes:
        beside = np.clip(points, (left, below), (right, above))
        assert (np.linalg.norm(points - beside, axis=1) >= RADIUS).all()
    leaders = [
        np.linspace(point, each.leader, 24)
        for point, each in zip(points, placed, strict=True)
        if each is not None and each.leader is not None
    ]
    for line in leaders:
        inside = (line[:, None] > boxes[:, :2]) & (line[:, None] < boxes[:, 2:])
        assert not inside.all(axis=2).any()


def test_where_there_is_room_every_label_is_placed_beside_its_point() -> None:
    points = np.array([(x, y) for x in (30.0, 100.0, 160.0) for y in (20.0, 70.0, 120.0)])
    placed = place_labels(points, np.full((9, 2), (20.0, 6.0)), bounds=BOUNDS, radii=[RADIUS] * 9)
    for point, each in zip(points, placed, strict=True):
        assert each is not None
        assert each.leader is None
        assert (each.x, each.y + 3) == pytest.approx((point[0] + RADIUS + 1, point[1]))


def test_the_first_label_wins_and_one_without_room_is_left_out() -> None:
    # In a frame hardly wider than one label there is room for a few rows, and the first points get them.
    points = np.array([(5.0, 4.0 + 2 * row) for row in range(8)])
    placed = place_labels(points, np.full((8, 2), (20.0, 6.0)), bounds=(30.0, 20.0), radii=[1.0] * 8)
    assert placed[0] is not None
    assert None in placed


def test_a_label_that_fits_nowhere_is_left_out() -> None:
    placed = place_labels(np.array([[5.0, 5.0]]), np.array([[50.0, 5.0]]), bounds=(20.0, 20.0), radii=[1.0])
    assert placed == [None]


def test_a_label_beside_a_crowd_gets_a_leader_that_crosses_no_other() -> None:
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    ring = np.column_stack([100 + 8 * np.cos(angles), 75 + 8 * np.sin(angles)])
    placed = place_labels(ring, np.full((16, 2), (24.0, 7.0)), bounds=BOUNDS, radii=[RADIUS] * 16)
    lines = [
        (point, np.array(each.leader))
        for point, each in zip(ring, placed, strict=True)
        if each is not None and each.leader is not None
    ]
    assert lines
    for number, (a, b) in enumerate(lines):
        for c, d in lines[:number]:
            # Where do the two lines meet, as shares of their lengths?
            matrix = np.column_stack([b - a, c - d])
            if abs(np.linalg.det(matrix)) > 1e-9:
                along = np.linalg.solve(matrix, c - a)
                assert not ((along > 1e-9) & (along < 1 - 1e-9)).all()


def test_overlaps_are_found() -> None:
    boxes = np.array([(0, 0, 2, 2), (1, 1, 3, 3), (2, 0, 4, 1), (9, 9, 10, 10)], np.float64)
    assert overlapping(boxes) == [(1, 0)]
