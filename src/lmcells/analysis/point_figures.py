"""Figures whose points have names: the map of sections, mixtures on a plane, and uncertainty.

Imports matplotlib and adjustText, so nothing imports this module before a figure is drawn.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from lmcells.analysis import Row
from lmcells.analysis.figures import bare, page, rho_label, section_label, style
from lmcells.analysis.mixtures import Marginal, mixture_plane
from lmcells.analysis.sections import NETWORK_NAMES
from lmcells.analysis.statistics import Floats
from lmcells.analysis.uncertainty import COLUMNS
from lmcells.errors import MissingExtra
from lmcells.figure_style import COLOURS, DPI, INK, label

_POINT = DPI / 72  # pixels
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))  # of a mark, tried in turn
_N_AT_ONCE = 8  # names that are placed together; more push each other away
_N_STEPS = 25
_FARTHEST = 26.0  # points between a mark and its name
_NEAR = 4.0  # points at which a name needs no line to its mark
_GAP = 3.0  # points kept free before and after a name: two names in a row would read as one


def write_names(
    axes: Axes,
    names: Sequence[str],
    places: Floats,
    *,
    radii: Sequence[float],
    styles: Sequence[dict[str, Any]] = (),
    font_size: float = 7,
) -> int:
    """Write names beside marks where there is room, the first ones first, and return how many.

    `places` (n, 2) are in data coordinates, and the limits and position of the axes must be final; `radii` of the marks
    are in points. A mark with an empty name is kept free. adjustText moves names apart; one that still covers a name or
    a mark, has been moved far away, or whose line would cross a name is tried on another side, and left out in the end.
    The figure must have the resolution that it is saved in: letters are fitted to pixels.
    """
    try:
        from adjustText import adjust_text
    except ModuleNotFoundError:
        raise MissingExtra("adjustText", extra="report", purpose="Drawing names") from None
    to_data = axes.transData.inverted()
    centers = axes.transData.transform(places)  # (n, 2), in pixels
    spread = (np.asarray(radii)[:, None] + 0.5) * _POINT
    boxes = np.hstack([centers - spread, centers + spread])  # (n, 4) of marks, then of names: x0, y0, x1, y1
    named = [row for row, name in enumerate(names) if name]
    batches = [named[first : first + _N_AT_ONCE] for first in range(0, len(named), _N_AT_ONCE)]
    for rows, (x_side, y_side) in ((rows, side) for rows in batches for side in _SIDES):
        if not rows:
            continue
        ha, va = ("center", "left", "right")[x_side], ("center", "bottom", "top")[y_side]
        align: dict[str, Any] = {"fontsize": font_size, "ha": ha, "va": va}
        starts = to_data.transform(centers + np.array([x_side, y_side]) * (spread + 2 * _POINT))
        texts = [
            axes.text(x, y, names[row], **align, **(styles[row] if styles else {}))
            for row, (x, y) in zip(rows, starts[rows].tolist(), strict=True)
        ]
        taken = to_data.transform(boxes.reshape(-1, 2)).reshape(-1, 2, 2)
        targets = {"target_x": places[rows, 0], "target_y": places[rows, 1]}
        forces = {"force_text": (0.3, 0.5), "force_static": (0.2, 0.4), "iter_lim": _N_STEPS}
        flags = {"avoid_self": False, "prevent_crossings": False}
        adjust_text(texts, objects=[Bbox(box) for box in taken], ax=axes, **targets, **forces, **flags)
        for row, text in zip(list(rows), texts, strict=True):
            box = np.array(text.get_window_extent().extents)
            end = np.clip(centers[row], box[:2], box[2:])  # of the name, nearest to the mark
            distance = float(np.linalg.norm(end - centers[row])) / _POINT - radii[row]
            covers = (box[:2] < boxes[:, 2:]).all(axis=1) & (boxes[:, :2] < box[2:]).all(axis=1)
            line = np.linspace(centers[row], end, 20)[:, None]
            written = boxes[len(places) :]
            crosses = ((written[:, :2] < line) & (line < written[:, 2:])).all(axis=2)
            if covers.any() or distance > _FARTHEST or crosses.any():
                text.remove()
                continue
            boxes = np.vstack([boxes, box + np.array([-_GAP, 0, _GAP, 0]) * _POINT])
            rows.remove(row)
            if distance > _NEAR:
                edge = centers[row] + (end - centers[row]) * radii[row] / (distance + radii[row])
                axes.plot(*to_data.transform([edge, end]).T, color="#8a8a8a", linewidth=0.4, zorder=1.5)
    return len(boxes) - len(places)


_MAP_HEIGHT = 6.0  # inches
_LEGEND_ROW = 0.17  # inches
_COLUMNS = 3  # of the legend
_LARGER = {"*": 1.7, "h": 1.1, "X": 1.1, "P": 1.1}  # markers with little ink


def draw_section_map(shown: Row) -> Figure:
    """Every section as a mark, with one marker and colour per cluster, and its name if there is room."""
    below = _LEGEND_ROW * (-(-len(shown.clusters) // _COLUMNS) + 1) + 0.15
    height = _MAP_HEIGHT + below
    counts = np.log1p([section.count for section in shown.sections])
    radii = 1.3 + 2.2 * (counts / max(float(counts.max()), 1.0)) ** 2
    clusters = np.array([section.cluster for section in shown.sections])
    places = np.array([(section.x, section.y) for section in shown.sections])
    with page(height, dpi=DPI, layout=None) as figure:
        axes = figure.add_axes((0.005, below / height, 0.99, _MAP_HEIGHT / height))
        axes.set_axis_off()
        for number, name in enumerate(shown.clusters):
            here, how = clusters == number, style(number)
            areas = (2 * radii[here] * _LARGER.get(how["marker"], 1.0)) ** 2
            how |= {"label": label(name), "linewidths": 0.4, "edgecolors": "white"}
            axes.scatter(places[here, 0], places[here, 1], areas, **how)
        low, high = places.min(axis=0), places.max(axis=0)
        margin = np.where(high > low, 0.06 * (high - low), 1.0)
        (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
        axes.set(xlim=(left, right), ylim=(bottom, top))
        names = [label(section.section) for section in shown.sections]
        n_named = write_names(axes, names, places, radii=radii.tolist(), font_size=6)
        how = {"ncols": _COLUMNS, "fontsize": 7, "title_fontsize": 7}
        how |= {"handletextpad": 0.2, "columnspacing": 1.2}
        how |= {"loc": "lower left", "bbox_to_anchor": (0.005, _LEGEND_ROW / height), "alignment": "left"}
        title = "Clusters, each named after its section with the most words"
        figure.legend(*axes.get_legend_handles_labels(), title=title, **how)
        named = f"{n_named} of {len(shown.sections)} sections named"
        note = f"{NETWORK_NAMES[shown.network]} · {named} · larger: more words"
        figure.text(0.012, 0.06 / height, note, fontsize=7)
    return figure


_N_SHOWN = 12  # components of a mixture, the heaviest
_N_NAMED = 5
_LARGEST = 13.0  # radius of a component with all the weight, in points
_EXPECTED = 3.5  # radius of the mark of an expected meaning
_FAR = LinearSegmentedColormap.from_list("far", ["#ffffff", "#9fc8e2", COLOURS[0]])


def draw_mixtures(marginals: Sequence[Marginal], divergences: Sequence[Row], *, part: str) -> Figure:
    """The heaviest components by their means, as large as their weights; `part` is what a component is."""
    n = len(marginals)
    # A mark shows a mean and a weight; a reader must know how far the cell extends around it.
    deviation = np.sqrt(np.mean([marginal.mixture.within for marginal in marginals]))
    title = f"Means by {part} (a cell's standard deviation: {deviation:.2f})"
    with page(3.7, 1 if n > 1 else 0.7, dpi=DPI) as figure:
        if n > 1:
            plane, matrix = figure.subplots(1, 2, width_ratios=(1.55, 1))
            _draw_matrix(matrix, [marginal.name for marginal in marginals], divergences)
        else:
            plane = figure.subplots()
        plane.set_title(f"a  {title}" if n > 1 else title, loc="left", fontsize=9)
        _draw_plane(plane, marginals, n_named=_N_NAMED if n > 1 else _N_SHOWN, part=part)
    return figure


def _draw_plane(axes: Axes, marginals: Sequence[Marginal], *, n_named: int, part: str) -> None:
    """Means of components, with an area of their weight; a cross is an expected meaning."""
    plane = mixture_plane(marginals, most=_N_SHOWN)
    part_label = section_label if part == "section" else label
    marks: list[tuple[str, Floats, float, dict[str, Any]]] = []  # name, place, radius, style
    components: list[tuple[str, Floats, float, dict[str, Any]]] = []
    for number, (marginal, places) in enumerate(zip(marginals, plane.components, strict=True)):
        radii = _LARGEST * np.sqrt(marginal.mixture.weights[: len(places)])
        how = {**style(number), "alpha": 0.55, "linewidths": 0.5, "edgecolors": "white"}
        axes.scatter(places[:, 0], places[:, 1], (2 * radii) ** 2, **how)
        expected = plane.expected[number]
        axes.plot(*expected, "+", color=INK, markersize=2 * _EXPECTED, markeredgewidth=1.2)
        bold = {"color": how["color"], "fontweight": "bold"}
        marks.append((label(marginal.name), expected, _EXPECTED, bold))
        for row, (name, place) in enumerate(zip(marginal.parts, places, strict=False)):
            components.append((part_label(name) if row < n_named else "", place, float(radii[row]), {}))
    marks += sorted(components, key=lambda mark: -mark[2])  # the heaviest gets its name first
    axes.set(xlabel=f"First principal axis ({plane.share:.0%} of the spread in both)", ylabel="Second")
    axes.set_aspect("equal", adjustable="datalim")
    axes.yaxis.set_major_locator(MaxNLocator(prune="lower"))  # whose label may touch that of the other axis
    axes.margins(0.18)
    _finish_layout(axes)
    axes.set(aspect="auto", xlim=axes.get_xlim(), ylim=axes.get_ylim())
    names, centers, sizes, styles = zip(*marks, strict=True)
    write_names(axes, names, np.array(centers), radii=sizes, styles=styles, font_size=6.5)


def _finish_layout(axes: Axes) -> None:
    """Compute the limits and positions of all axes and keep them: names are placed in these."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _draw_matrix(axes: Axes, names: Sequence[str], divergences: Sequence[Row]) -> None:
    """KL from each row to each column, with the standard error."""
    n, values = len(names), np.zeros((len(names), len(names)))
    places = [(names.index(each["from"]), names.index(each["to"])) for each in divergences]
    for place, each in zip(places, divergences, strict=True):
        values[place] = each.sampled["value"]
    axes.imshow(values, cmap=_FAR, vmin=0)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": max(5.0, 8.5 - 0.5 * n)}
    for (row, column), each in zip(places, divergences, strict=True):
        colour = "white" if values[row, column] > 0.7 * values.max() else INK
        text = f"{values[row, column]:.2f}\n±{each.sampled['standard_error']:.2f}"
        axes.text(column, row, text, color=colour, **middle)
    labels = [label(name) for name in names]
    axes.set_xticks(range(n), labels, rotation=35, ha="right", rotation_mode="anchor", fontsize=7)
    axes.set_yticks(range(n), labels, fontsize=7)
    bare(axes)
    axes.set_title("b  KL(row || column), nats", loc="left", fontsize=9)


_MANY = LinearSegmentedColormap.from_list("many", ["#e8f1f8", "#4393c3"])  # names stay readable on it
_LINE = COLOURS[1]
_MARK = 3.0  # radius of the mark of a word, in points
_N_BINS = 12
_TITLES = {"within": "Prior variance", "between": "Variance between sections"}
_AGAINST = {"frequency": "Occurrences", "sections": "Sections, effective number"}
_AGAINST |= {"senses": "Long forms of a short form"}


def draw_uncertainty(
    measured: Sequence[Row], associations: Sequence[Row], *, named: Sequence[Row] = ()
) -> Figure:
    """Words as a density with the median in bins; short forms by their number of long forms; `named` words marked."""
    column = {name: np.array([row[name] for row in measured]) for name in measured[0]}
    columns = [name for name in _AGAINST if column["n_senses"].any() or name != "senses"]
    rho_of = {(each.variance, each.against): rho_label(each.rho) for each in associations if not each.given}
    with page(4.4, dpi=DPI) as figure:
        panels = figure.subplots(len(_TITLES), len(columns), sharey="row", squeeze=False)
        letters, middles = iter("abcdef"), dict[tuple[str, str], Floats]()
        for row, (variance, title) in zip(panels, _TITLES.items(), strict=True):
            values = column[variance]
            for axes, against in zip(row, columns, strict=True):
                if against == "senses":
                    _draw_by_senses(axes, column["n_senses"], values)
                else:
                    xs = column[COLUMNS[against]].astype(np.float64)
                    middles[variance, against] = _draw_density(axes, xs, values)
                rho = rho_of.get((variance, against), "ρ not defined")
                axes.set_title(f"{next(letters)}  {rho}", fontsize=8.5, loc="left")
            row[0].set_ylabel(title)
            row[0].set_ylim(*_limits(values, also=[word[variance] for word in named]))
        for axes, against in zip(panels[-1], columns, strict=True):
            axes.set_xlabel(_AGAINST[against])
        if named:
            _finish_layout(panels[0, 0])
            of_panel = dict(zip(((v, a) for v in _TITLES for a in columns), panels.flat, strict=True))
            for (variance, against), medians in middles.items():
                _mark(of_panel[variance, against], named, variance, against, keep_free=medians)
    return figure


def _draw_density(axes: Axes, xs: Floats, ys: Floats) -> Floats:
    """Draw how many words lie where, and the medians of equally large groups of them; return the medians."""
    extent = (*np.log10(_limits(xs)), *_limits(ys))
    # A thousand hexagons would be most of the file, and so would their soft edges.
    as_pixels: dict[str, Any] = {"linewidths": 0.1, "rasterized": True, "antialiased": False}
    axes.hexbin(
        xs, ys, gridsize=(24, 14), bins="log", xscale="log", extent=extent, mincnt=1, cmap=_MANY, **as_pixels
    )
    groups = np.array_split(np.argsort(xs, kind="stable"), min(_N_BINS, xs.size))
    medians = np.array([(np.median(xs[group]), np.median(ys[group])) for group in groups])
    axes.plot(*medians.T, color=_LINE, marker="o", markersize=2.5, linewidth=1.4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(visible=False)
    return medians


def _draw_by_senses(axes: Axes, n_senses: npt.NDArray[np.int64], ys: Floats) -> None:
    """Boxes of the short forms with n long forms; the width says how many short forms there are."""
    numbers = np.unique(n_senses[n_senses > 0])
    groups = [ys[n_senses == number] for number in numbers]
    most = max(group.size for group in groups)
    widths = [0.2 + 0.6 * np.sqrt(group.size / most) for group in groups]
    ink: dict[str, Any] = {
        "boxprops": {"facecolor": "#dceaf4", "edgecolor": COLOURS[0]},
        "whiskerprops": {"color": COLOURS[0]},
        "capprops": {"color": COLOURS[0]},
        "medianprops": {"color": _LINE, "linewidth": 1.8},
    }
    how: dict[str, Any] = {"whis": (10, 90), "showfliers": False, "patch_artist": True, "manage_ticks": False}
    axes.boxplot(groups, positions=numbers, widths=widths, **how, **ink)
    axes.set_xticks(numbers)
    axes.grid(visible=False, axis="x")


def _mark(axes: Axes, words: Sequence[Row], variance: str, against: str, *, keep_free: Floats) -> None:
    xs, ys = ([float(word[key]) for word in words] for key in (COLUMNS[against], variance))
    axes.plot(xs, ys, "D", color="white", markeredgecolor=INK, markersize=1.4 * _MARK, clip_on=False)
    names = [*(label(word.word) for word in words), *[""] * len(keep_free)]
    places = np.vstack([np.column_stack([xs, ys]), keep_free])
    write_names(axes, names, places, radii=[_MARK] * len(places))


def _limits(values: Floats, *, also: Sequence[float] = ()) -> tuple[float, float]:
    """Limits without the outermost few words, which would squeeze the rest, unless they are among `also`."""
    low, high = np.quantile(values, [0.001, 0.999])
    low, high = min([low, *also]), max([high, *also])
    room = 0.04 * (high - low) or 0.1 * abs(float(high)) or 1.0
    return float(low - room) if low - room > 0 else float(low), float(high + room)
