"""A rank correlation as a figure writes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg

from lmcells.analysis.names import NULL_SECTION
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.evaluation.intervals import Interval
from lmcells.figure_style import DPI, INK, label

# Labels beside points so that nothing covers anything: greedy, in the order given, the first points first.
#
# Geometry alone, in whatever unit the points are in; what draws them measures the labels.


Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Beside the point first, then above and below, then askew: how a reader looks for a name.
_SIDES = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
_ASKEW = [
    direction
    for part in (0.5, 0.25, 0.75)
    for one in (part, -part)
    for direction in ((1, one), (-1, one), (one, 1), (one, -1))
]
_DIRECTIONS = np.array([*_SIDES, *_ASKEW], np.float64)
_STEPS = (0.0, 0.8, 1.7, 2.8, 4.2)  # how far from the point, in heights of the label
_LEADER_POINTS = 24  # at which a leader is checked against boxes


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a label stands (its corner below on the left), and where a line from its point ends, if it needs one."""

    x: float
    y: float
    leader: tuple[float, float] | None


def place_labels(
    points: Floats, sizes: Floats, *, bounds: tuple[float, float], radii: Sequence[float], gap: float = 1.0
) -> list[Placement | None]:
    """Place a label of `sizes` (n, 2) beside each of `points` (n, 2), inside (0, 0) to `bounds`; None: no room.

    No label covers another, a point (a disc of its radius) or a leader, and no leader crosses a label, another leader
    or another point.
    """
    spread = np.asarray(radii, np.float64)[:, None] + gap / 2
    discs = np.hstack([points - spread, points + spread])  # (n, 4): left, below, right, above
    boxes, leaders = np.zeros((0, 4)), np.zeros((0, 2, 2))
    placed: list[Placement | None] = []
    for row, (point, size) in enumerate(zip(points, sizes, strict=True)):
        others = np.delete(discs, row, axis=0)
        apart = others[~_holds(others, point[None])]  # points may lie on each other
        on_leaders = np.linspace(leaders[:, 0], leaders[:, 1], _LEADER_POINTS).reshape(-1, 2)
        found = None
        for box, end in _candidates(point, size, reach=float(spread[row, 0] + gap / 2)):
            around = box + np.array([-gap, -gap, gap, gap])
            if (box[:2] < 0).any() or (box[2:] > bounds).any() or _holds(around[None], on_leaders).any():
                continue
            if _meets(around, boxes).any() or _meets(box, others).any():
                continue
            if end is not None:
                line = np.linspace(point, end, _LEADER_POINTS)
                crosses = _holds(boxes, line).any() or _holds(apart, line).any()
                if crosses or any(_cross(point, end, *other) for other in leaders):
                    continue
                leaders = np.concatenate([leaders, [[point, end]]])
            boxes = np.vstack([boxes, box])
            leader = None if end is None else (float(end[0]), float(end[1]))
            found = Placement(float(box[0]), float(box[1]), leader)
            break
        placed.append(found)
    return placed


def overlapping(boxes: Floats) -> list[tuple[int, int]]:
    """The pairs of boxes (left, below, right, above) that overlap: (n, 4) -> pairs of rows."""
    return [
        (first, second)
        for first in range(len(boxes))
        for second in np.flatnonzero(_meets(boxes[first], boxes[:first])).tolist()
    ]


def _candidates(point: Floats, size: Floats, *, reach: float) -> Iterator[tuple[Floats, Floats | None]]:
    """Boxes to try, the nearest first, each with where its leader ends; those beside the point need none."""
    for step in _STEPS:
        for direction in _DIRECTIONS:
            away = reach + step * size[1]
            # The box touches a square around the point from outside, at the side that the direction names.
            corner = point + direction * away - size * (1 - direction) / 2
            box = np.concatenate([corner, corner + size])
            yield box, np.clip(point, box[:2], box[2:]) if step else None


def _meets(box: Floats, others: Floats) -> Flags:
    """Which boxes a box overlaps: (4,), (n, 4) -> (n,)."""
    beside = (box[:2] >= others[:, 2:]) | (others[:, :2] >= box[2:])  # (n, 2)
    met: Flags = ~np.any(beside, axis=1)
    return met


def _holds(boxes: Floats, points: Floats) -> Flags:
    """Which boxes have any of the points inside: (n, 4), (k, 2) -> (n,)."""
    inside = (points > boxes[:, None, :2]) & (points < boxes[:, None, 2:])  # (n, k, 2)
    held: Flags = np.any(np.all(inside, axis=2), axis=1)
    return held


def _cross(a: Floats, b: Floats, c: Floats, d: Floats) -> bool:
    """Whether the lines from a to b and from c to d cross: each has the other's ends on its two sides."""
    return _side(a, b, c) != _side(a, b, d) and _side(c, d, a) != _side(c, d, b)


def _side(a: Floats, b: Floats, point: Floats) -> bool:
    along, beside = b - a, point - a
    return bool(along[0] * beside[1] > along[1] * beside[0])


# Names of sections, and names beside the points of a figure so that nothing covers anything.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


# A model's own names for what has no header of its own.
_UNNAMED = {NULL_SECTION: "no section", NO_SECTION: "no section", OTHER: "rare sections"}
_LEADER = "#8a8a8a"
_MARGIN = 3.0  # points between a name and the frame


def section_label(section: str) -> str:
    """A section's name as a label."""
    return _UNNAMED.get(section, label(section))


def write_names(
    axes: Axes,
    names: Sequence[str],
    places: Floats,
    *,
    radii: Sequence[float],
    colours: Sequence[str] = (),
    weights: Sequence[str] = (),
    font_size: float = 7,
) -> int:
    """Write the names that have room, the first ones first; -> how many.

    `places` (n, 2) are in the units of the axes, whose limits and place must be final; `radii` of the marks are in
    points. A mark with an empty name gets none, and no name covers it.
    """
    colours, weights = colours or [INK] * len(names), weights or ["normal"] * len(names)
    figure = axes.get_figure(root=True)
    assert figure is not None  # these axes are in one
    to_points = 72 / figure.dpi
    # As they will be saved: letters are fitted to pixels, and at the figure's own dpi a name is up to 10 % narrower.
    saved = RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]
    sizes = np.zeros((len(names), 2))  # in points
    for row, (name, weight) in enumerate(zip(names, weights, strict=True)):
        if name:
            measured = figure.text(0, 0, name, fontsize=font_size, fontweight=weight)
            box = measured.get_window_extent(saved, dpi=DPI)
            sizes[row] = box.width * 72 / DPI, box.height * 72 / DPI
            measured.remove()
    frame = axes.get_window_extent()
    points = (axes.transData.transform(places) - (frame.x0, frame.y0)) * to_points - _MARGIN
    bounds = (frame.width * to_points - 2 * _MARGIN, frame.height * to_points - 2 * _MARGIN)
    placed = place_labels(points, sizes, bounds=bounds, radii=radii)
    n_written = 0
    for name, colour, weight, place, point, where in zip(
        names, colours, weights, places, points, placed, strict=True
    ):
        if where is None or not name:
            continue
        n_written += 1
        if where.leader is not None:
            line = axes.annotate(
                "",
                xy=(place[0], place[1]),
                xytext=tuple(np.array(where.leader) - point),
                textcoords="offset points",
                arrowprops={
                    "arrowstyle": "-",
                    "color": _LEADER,
                    "linewidth": 0.4,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
            line.set_in_layout(False)
        text = axes.annotate(
            name,
            xy=(place[0], place[1]),
            xytext=(where.x - point[0], where.y - point[1]),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize=font_size,
            fontweight=weight,
            color=colour,
        )
        text.set_in_layout(False)  # the layout is what it was placed in
    return n_written


# A rank correlation as a figure writes it.


def written(rho: Interval) -> str:
    """ρ with its interval, and a real minus sign; zero has none."""
    estimate, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (rho.estimate, rho.low, rho.high))
    return f"ρ = {estimate} [{low}, {high}]".replace("-", "−")
