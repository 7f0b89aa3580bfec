"""Names of sections, and names beside the points of a figure so that nothing covers anything.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg

from lmcells.analysis.drawing.label_placement import Floats, place_labels
from lmcells.analysis.names import NULL_SECTION
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.figure_style import DPI, INK, label

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
