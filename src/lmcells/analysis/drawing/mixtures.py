"""The figure of mixtures: their components on a plane, and the divergences between them.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from lmcells.analysis.drawing.labels import section_label, write_names
from lmcells.analysis.mixtures.marginals import Comparison
from lmcells.analysis.mixtures.plane import mixture_plane
from lmcells.analysis.statistics.distances import Floats
from lmcells.figure_style import COLOURS, INK, MARKERS, PAGE_WIDTH, house_style, label

_N_SHOWN = 12  # components of a mixture, the heaviest
_N_NAMED = 5
_LARGEST = 13.0  # radius of a component with all the weight, in points
_EXPECTED = 3.5  # radius of the mark of an expected meaning
_FAR = LinearSegmentedColormap.from_list("far", ["#ffffff", "#9fc8e2", COLOURS[0]])


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is drawn at a place, and its name."""

    name: str
    place: Floats
    radius: float
    colour: str = INK
    weight: str = "normal"


def draw_mixtures(comparison: Comparison, *, part: str) -> Figure:
    """The heaviest components by their means, as large as their weights; `part` is what a component is."""
    n = len(comparison.marginals)
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH * (1 if n > 1 else 0.7), 3.7), layout="constrained")
        if n > 1:
            plane, matrix = figure.subplots(1, 2, width_ratios=(1.55, 1))
            _matrix(matrix, comparison)
        else:
            plane = figure.subplots()
        part_label = section_label if part == "section" else label
        plane.set_title(f"{'a  ' if n > 1 else ''}{_title(comparison, part)}", loc="left", fontsize=9)
        _plane(plane, comparison, n_named=_N_NAMED if n > 1 else _N_SHOWN, part_label=part_label)
    return figure


def _title(comparison: Comparison, part: str) -> str:
    # A mark is a mean with a weight; a reader must know how far its cell reaches around it.
    deviation = np.sqrt(np.mean([marginal.mixture.within for marginal in comparison.marginals]))
    return f"Means by {part} (a cell's standard deviation: {deviation:.2f})"


def _plane(axes: Axes, comparison: Comparison, *, n_named: int, part_label: Callable[[str], str]) -> None:
    """Means of components, an area each that is its weight; a cross is an expected meaning."""
    marginals = comparison.marginals
    plane = mixture_plane(marginals, most=_N_SHOWN)
    marks = [
        _Mark(label(marginal.name), place, _EXPECTED, _colour(number), "bold")
        for number, (marginal, place) in enumerate(zip(marginals, plane.expected, strict=True))
    ]
    components = []
    for number, (marginal, places) in enumerate(zip(marginals, plane.components, strict=True)):
        radii = _LARGEST * np.sqrt(marginal.mixture.weights[: len(places)])
        axes.scatter(
            places[:, 0],
            places[:, 1],
            s=(2 * radii) ** 2,
            color=_colour(number),
            marker=MARKERS[number % len(MARKERS)],
            alpha=0.55,
            linewidths=0.5,
            edgecolors="white",
        )
        axes.plot(*plane.expected[number], "+", color=INK, markersize=2 * _EXPECTED, markeredgewidth=1.2)
        for row, (name, place) in enumerate(zip(marginal.parts, places, strict=False)):
            components.append(_Mark(part_label(name) if row < n_named else "", place, float(radii[row])))
    marks += sorted(components, key=lambda mark: -mark.radius)  # the heaviest finds room first
    axes.set(xlabel=f"First principal axis ({plane.share:.0%} of the spread in both)", ylabel="Second")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.18)
    figure = axes.get_figure(root=True)
    assert figure is not None  # these axes are in one
    figure.draw_without_rendering()  # sets the limits, which are final from here on
    axes.set(aspect="auto", xlim=axes.get_xlim(), ylim=axes.get_ylim())
    write_names(
        axes,
        [mark.name for mark in marks],
        np.array([mark.place for mark in marks]),
        radii=[mark.radius for mark in marks],
        colours=[mark.colour for mark in marks],
        weights=[mark.weight for mark in marks],
        font_size=6.5,
    )


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _matrix(axes: Axes, comparison: Comparison) -> None:
    """KL from each row to each column, with the standard error."""
    n = len(comparison.marginals)
    names = [label(marginal.name) for marginal in comparison.marginals]
    values = np.zeros((n, n))
    for place, divergence in comparison.divergences.items():
        values[place] = divergence.sampled.value
    axes.imshow(values, cmap=_FAR, vmin=0)
    for (row, column), divergence in comparison.divergences.items():
        sampled = divergence.sampled
        dark = sampled.value > 0.7 * values.max()
        axes.text(
            column,
            row,
            f"{sampled.value:.2f}\n±{sampled.standard_error:.2f}",
            ha="center",
            va="center",
            fontsize=max(5.0, 8.5 - 0.5 * n),
            color="white" if dark else INK,
        )
    axes.set_xticks(range(n), names, rotation=35, ha="right", rotation_mode="anchor", fontsize=7)
    axes.set_yticks(range(n), names, fontsize=7)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_title("b  KL(row || column), nats", loc="left", fontsize=9)
