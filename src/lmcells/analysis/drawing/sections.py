"""Sections as figures: the map of all, and the nearest ones of one.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmcells.analysis.drawing.label_placement import Floats
from lmcells.analysis.drawing.labels import write_names
from lmcells.analysis.drawing.neighbors import draw_ranking
from lmcells.analysis.sections.embeddings import NETWORK_NAMES
from lmcells.analysis.sections.map import SectionMap
from lmcells.analysis.sections.neighbors import NearestSections
from lmcells.figure_style import COLOURS, MARKERS, PAGE_WIDTH, house_style, label

_MAP_HEIGHT = 6.0  # inches
_LEGEND_ROW = 0.17  # inches
_COLUMNS = 3  # of the legend
_FONT_SIZE = 6.0
_LARGER = {"*": 1.7, "h": 1.1, "X": 1.1, "P": 1.1}  # markers with little ink


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """The figure, and how many of its sections had room for their names."""

    figure: Figure
    n_labelled: int


def draw_section_map(shown: SectionMap) -> DrawnMap:
    """Every section as a mark, a marker and a colour a cluster; names where there is room, frequent sections first."""
    n_rows = -(-len(shown.clusters) // _COLUMNS)
    below = _LEGEND_ROW * (n_rows + 1) + 0.15
    height = _MAP_HEIGHT + below
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH, height))
        axes = figure.add_axes((0.005, below / height, 0.99, _MAP_HEIGHT / height))
        axes.set_axis_off()
        places = np.array([(section.x, section.y) for section in shown.sections])
        radii = _draw_marks(axes, shown, places)
        axes.set_xlim(*_limits(places[:, 0]))
        axes.set_ylim(*_limits(places[:, 1]))
        names = [label(section.section) for section in shown.sections]
        n_labelled = write_names(axes, names, places, radii=radii.tolist(), font_size=_FONT_SIZE)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="lower left",
            bbox_to_anchor=(0.005, _LEGEND_ROW / height),
            ncols=_COLUMNS,
            fontsize=7,
            handletextpad=0.2,
            columnspacing=1.2,
            title="Clusters, each named after its section with the most words",
            title_fontsize=7,
            alignment="left",
        )
        named = f"{n_labelled} of {len(shown.sections)} sections named"
        note = f"{NETWORK_NAMES[shown.network]} · {named} · larger: more words"
        figure.text(0.012, 0.06 / height, note, fontsize=7)
    return DrawnMap(figure, n_labelled)


def draw_nearest_sections(found: NearestSections) -> Figure:
    """The nearest sections in the variational network and in the model network, side by side."""
    near_by = (found.variational, found.prior)
    n = max(map(len, near_by))
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.9 + 0.2 * n), layout="constrained")
        panels = figure.subplots(1, 2, sharex=True)
        for axes, near, title in zip(panels, near_by, NETWORK_NAMES.values(), strict=True):
            names = [each.section for each in near]
            draw_ranking(axes, names, [each.cosine for each in near])
            axes.set_title(title)
        cosines = [each.cosine for near in near_by for each in near]
        panels[0].set_xlim(1.2 * min(0.0, *cosines), 1.2 * max(0.0, *cosines) or 1.0)
        figure.supxlabel(f"Cosine with {label(found.section)}", fontsize=9)
    return figure


def _draw_marks(axes: Axes, shown: SectionMap, places: Floats) -> Floats:
    """Draw the points, cluster by cluster; -> the radius of each in points."""
    counts = np.array([section.count for section in shown.sections], np.float64)
    scale = np.log1p(counts) / max(float(np.log1p(counts.max())), 1.0)
    radii = 1.3 + 2.2 * scale**2
    clusters = np.array([section.cluster for section in shown.sections])
    for number, name in enumerate(shown.clusters):
        here, marker = clusters == number, MARKERS[number % len(MARKERS)]
        axes.scatter(
            places[here, 0],
            places[here, 1],
            s=(2 * radii[here] * _LARGER.get(marker, 1.0)) ** 2,
            c=COLOURS[number % len(COLOURS)],
            marker=marker,
            linewidths=0.4,
            edgecolors="white",
            label=label(name),
        )
    return radii


def _limits(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin
