"""The words nearest to a cell, as a figure.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmcells.analysis.drawing.labels import section_label
from lmcells.analysis.words.neighbors import NearestWords
from lmcells.figure_style import COLOURS, GRID, PAGE_WIDTH, house_style, label

_AXIS = {"divergence": "KL divergence (nats)", "cosine": "Cosine of the means"}


def draw_nearest_words(found: NearestWords) -> Figure:
    """One row a word, the nearest on top."""
    with house_style():
        size = (PAGE_WIDTH * 0.55, 0.85 + 0.19 * len(found.neighbors))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        values = [getattr(each, found.measure) for each in found.neighbors]
        draw_ranking(axes, [each.word for each in found.neighbors], values)
        axes.set_xlabel(_AXIS[found.measure])
        axes.set_title(f"{label(found.word)} {under(found.section)}")
    return figure


def draw_ranking(axes: Axes, names: Sequence[str], values: Sequence[float]) -> None:
    """Names from top to bottom, each with its value as a point and in digits."""
    rows = range(len(names))
    axes.hlines(rows, 0, values, color=GRID, linewidth=1.0)
    axes.plot(values, rows, "o", color=COLOURS[0], markersize=4.5)
    for row, value in enumerate(values):
        side = 1 if value >= 0 else -1
        axes.annotate(
            f"{value:.2f}",
            (value, row),
            xytext=(5 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center_baseline",
            fontsize=7,
        )
    axes.set_yticks(rows, [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first on top
    axes.grid(visible=False)  # the values are written out
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(min(0.0, *values) * 1.2, max(0.0, *values) * 1.2 or 1.0)


def under(section: str | None) -> str:
    """Which cell of a word is meant, in words."""
    if section is None:
        return "on average"
    return f"under {section_label(section)}"
