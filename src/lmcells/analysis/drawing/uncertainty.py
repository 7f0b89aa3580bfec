"""The figure of uncertainty: both parts of the words' variance against frequency, sections and senses.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from lmcells.analysis.drawing.correlation import written
from lmcells.analysis.drawing.labels import write_names
from lmcells.analysis.statistics.distances import Floats
from lmcells.analysis.words.uncertainty import Association, Variance, WordUncertainty, WordVariances
from lmcells.figure_style import COLOURS, INK, PAGE_WIDTH, house_style, label

_MANY = LinearSegmentedColormap.from_list("many", ["#e8f1f8", "#4393c3"])  # names stay readable on it
_LINE = COLOURS[1]
_MARK = 3.0  # radius of the mark of a word, in points
_N_BINS = 12
_TITLES: dict[Variance, str] = {"within": "Prior variance", "between": "Variance between sections"}
_AGAINST = {
    "frequency": "Occurrences",
    "sections": "Sections, effective number",
    "senses": "Long forms of a short form",
}


def draw_uncertainty(
    variances: WordVariances, associations: Sequence[Association], *, named: Sequence[WordUncertainty] = ()
) -> Figure:
    """Words as a density with the median in bins; short forms by their number of long forms; `named` words marked."""
    has_senses = bool((variances.n_senses > 0).any())
    columns = [name for name in _AGAINST if has_senses or name != "senses"]
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH, 4.4), layout="constrained")
        panels = figure.subplots(len(_TITLES), len(columns), sharey="row", squeeze=False)
        letters, middles = iter("abcdef"), dict[Axes, Floats]()
        for row, (variance, title) in zip(panels, _TITLES.items(), strict=True):
            values: Floats = getattr(variances, variance)
            for axes, against in zip(row, columns, strict=True):
                if against == "senses":
                    _by_senses(axes, variances.n_senses, values)
                else:
                    xs = variances.count if against == "frequency" else variances.n_sections
                    middles[axes] = _density(axes, xs.astype(np.float64), values)
                axes.set_title(
                    f"{next(letters)}  {_rho(associations, variance, against)}", fontsize=8.5, loc="left"
                )
            row[0].set_ylabel(title)
            row[0].set_ylim(*_limits(values, also=[getattr(word, variance) for word in named]))
        for axes, against in zip(panels[-1], columns, strict=True):
            axes.set_xlabel(_AGAINST[against])
        if named:
            figure.draw_without_rendering()  # the layout, in which names find room, is final from here on
            for row, variance in zip(panels, _TITLES, strict=True):
                for axes, against in zip(row, columns, strict=True):
                    if against != "senses":
                        _mark(axes, named, variance, against, middles=middles[axes])
    return figure


def _density(axes: Axes, xs: Floats, ys: Floats) -> Floats:
    """How many words lie where, and the middle of each of some equally large groups of them; -> the middles."""
    axes.hexbin(
        xs,
        ys,
        gridsize=(24, 14),
        xscale="log",
        bins="log",
        mincnt=1,
        cmap=_MANY,
        linewidths=0.1,
        rasterized=True,  # a thousand hexagons would be most of the file, and so would their soft edges
        antialiased=False,
        extent=(*np.log10(_limits(xs)), *_limits(ys)),
    )
    groups = np.array_split(np.argsort(xs, kind="stable"), min(_N_BINS, xs.size))
    middles = np.array([(np.median(xs[group]), np.median(ys[group])) for group in groups])
    axes.plot(*middles.T, color=_LINE, marker="o", markersize=2.5, linewidth=1.4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(visible=False)
    return middles


def _by_senses(axes: Axes, n_senses: npt.NDArray[np.int64], ys: Floats) -> None:
    """The middle half and the median of the short forms with so many long forms; the width says how many they are."""
    numbers = np.unique(n_senses[n_senses > 0])
    groups = [ys[n_senses == number] for number in numbers]
    most = max(group.size for group in groups)
    axes.boxplot(
        groups,
        positions=numbers,
        widths=[0.2 + 0.6 * np.sqrt(group.size / most) for group in groups],
        whis=(10, 90),
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": "#dceaf4", "edgecolor": COLOURS[0]},
        whiskerprops={"color": COLOURS[0]},
        capprops={"color": COLOURS[0]},
        medianprops={"color": _LINE, "linewidth": 1.8},
    )
    axes.set_xticks(numbers)
    axes.grid(visible=False, axis="x")


def _mark(
    axes: Axes, named: Sequence[WordUncertainty], variance: Variance, against: str, *, middles: Floats
) -> None:
    """Mark the words that were asked for; their names leave the middles free."""
    xs = [float(word.count) if against == "frequency" else word.n_sections for word in named]
    ys = [float(getattr(word, variance)) for word in named]
    axes.plot(xs, ys, "D", color="white", markeredgecolor=INK, markersize=1.4 * _MARK, clip_on=False)
    write_names(
        axes,
        [*(label(word.word) for word in named), *[""] * len(middles)],
        np.vstack([np.column_stack([xs, ys]), middles]),
        radii=[_MARK] * (len(named) + len(middles)),
    )


def _rho(associations: Sequence[Association], variance: Variance, against: str) -> str:
    for each in associations:
        if (each.variance, each.against, each.given) == (variance, against, None):
            return written(each.rho)
    return "ρ not defined"


def _limits(values: Floats, *, also: Sequence[float] = ()) -> tuple[float, float]:
    """Without the outermost few words, which would make the rest small, unless they were asked for."""
    low, high = np.quantile(values, [0.001, 0.999])
    low, high = min([low, *also]), max([high, *also])
    room = 0.04 * (high - low) or 0.1 * abs(float(high)) or 1.0
    return float(low - room) if low - room > 0 else float(low), float(high + room)
