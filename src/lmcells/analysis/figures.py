"""The figure of uncertainty: both parts of the words' variance against frequency, sections and senses.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from lmcells.analysis.figure_labels import section_label, write_names, written
from lmcells.analysis.gate import (
    ALONE,
    LEAST_EXAMPLES,
    SECTIONS,
    TOKENS,
    WORDS,
    Check,
    GateSummary,
    SectionAlone,
    SectionGate,
)
from lmcells.analysis.interpolation import Interpolation
from lmcells.analysis.mixtures import Comparison, mixture_plane
from lmcells.analysis.neighbors import NearestWords
from lmcells.analysis.sections import NETWORK_NAMES, NearestSections, SectionMap
from lmcells.analysis.senses import SectionSense, WordSenses
from lmcells.analysis.statistics import Floats
from lmcells.analysis.uncertainty import Association, Variance, WordUncertainty, WordVariances
from lmcells.figure_style import COLOURS, GRID, INK, LINES, MARKERS, PAGE_WIDTH, house_style, label

# The words nearest to a cell, as a figure.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


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


# Sections as figures: the map of all, and the nearest ones of one.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


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


# A word under its sections, as a table in colour: the numbers are printed, the colour says which are unusual.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


_LESS, _MORE = COLOURS[4], COLOURS[0]  # orange, blue: told apart by all, and one much darker in grey
_FOLD = 3.0  # the ratio at which a colour is full
_N_WIDE, _N_ASKEW, _N_UPRIGHT = (
    18,
    16,
    28,
)  # columns that have room for digits, askew and upright names of full size
_ROW, _MARGIN = 0.36, 1.25  # inches


def draw_senses(senses: WordSenses) -> Figure:
    """A row a section, and one for the word's average; a column a word: how likely it is, and against the average."""
    rows = [*senses.sections, senses.average]
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH, _MARGIN + _ROW * len(rows)), layout="constrained")
        axes = figure.subplots()
        ratios = np.array([[each.ratio for each in row.likenesses] for row in rows])
        image = axes.imshow(
            np.log2(np.clip(ratios, 1 / _FOLD, _FOLD)),
            cmap=LinearSegmentedColormap.from_list("pull", [_LESS, "#ffffff", _MORE]),
            vmin=-np.log2(_FOLD),
            vmax=np.log2(_FOLD),
            aspect="auto",
            alpha=0.6,
        )
        for number, row in enumerate(rows):
            _write_row(axes, number, row, is_average=number == len(rows) - 1)
        axes.axhline(len(rows) - 1.5, color=INK, linewidth=1.0)
        _name_columns(axes, senses.words)
        axes.set_yticks(range(len(rows)), [_row_name(row) for row in rows])
        axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(f"What {label(senses.word)!r} is near to, by section (%)", loc="left")
        ticks = [1 / _FOLD, 1 / 2, 1, 2, _FOLD]
        bar = figure.colorbar(image, ax=axes, ticks=np.log2(ticks).tolist(), aspect=14, pad=0.015)
        bar.ax.set_yticklabels(["× ⅓", "× ½", "× 1", "× 2", "× 3"])
        bar.ax.tick_params(labelsize=7, length=2)
        bar.set_label("against the average", fontsize=7.5)
    return figure


def _name_columns(axes: Axes, words: Sequence[str]) -> None:
    """Words above the columns, askew where there is room, else upright."""
    upright = len(words) > _N_ASKEW
    axes.set_xticks(
        range(len(words)),
        [label(word) for word in words],
        rotation=90 if upright else 40,
        ha="center" if upright else "left",
        fontsize=9 * min(1.0, _N_UPRIGHT / len(words)),
    )


def _write_row(axes: Axes, number: int, row: SectionSense, *, is_average: bool) -> None:
    most = max(each.probability for each in row.likenesses)
    scale = min(1.0, _N_WIDE / len(row.likenesses))
    for column, each in enumerate(row.likenesses):
        axes.annotate(
            f"{100 * each.probability:.0f}",
            (column, number),
            xytext=(0, 0 if is_average else 4),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8 * scale,
            fontweight="bold" if each.probability == most else "normal",
        )
        if not is_average:
            axes.annotate(
                f"×{each.ratio:.1f}",
                (column, number),
                xytext=(0, -5),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=6 * scale,
            )


def _row_name(row: SectionSense) -> str:
    return "average" if row.section is None else section_label(row.section)


# The figure of the gate: its weight by section, and whether short, topical sections get more.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


_MOST_ROWS, _FEWEST_ROWS = 24, 12
_BLUE, _ORANGE = COLOURS[0], COLOURS[1]


def draw_gate(summary: GateSummary, checks: Sequence[Check], alone: Sequence[SectionAlone]) -> Figure:
    """Quantiles of the weight, a row a section; beside them the weight against two measures of a section's size."""
    often = [each for each in summary.sections if each.n >= LEAST_EXAMPLES]
    sections = often or summary.sections
    shown = _evenly(sections, _MOST_ROWS)
    with house_style():
        figure = Figure(figsize=(PAGE_WIDTH, max(4.2, 0.9 + 0.19 * len(shown))), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
        _quantiles(figure.add_subplot(grid[:, 0]), shown)
        _against_words(figure.add_subplot(grid[0, 1]), sections, _rho(checks, SECTIONS, WORDS))
        _against_tokens(figure.add_subplot(grid[1, 1]), alone, _rho(checks, ALONE, TOKENS))
    return figure


def _evenly(sections: Sequence[SectionGate], most: int) -> list[SectionGate]:
    """So many of the sections, from the first to the last."""
    if len(sections) <= most:
        return list(sections)
    return [sections[round(place * (len(sections) - 1) / (most - 1))] for place in range(most)]


def _quantiles(axes: Axes, sections: Sequence[SectionGate]) -> None:
    """A dot at the median, a bar over the middle half, a line over the middle 80 %."""
    for row, section in enumerate(sections):
        tenth, quarter, median, three_quarters, nine_tenths = section.quantiles
        axes.hlines(row, tenth, nine_tenths, color=_BLUE, linewidth=1.0)
        axes.hlines(row, quarter, three_quarters, color=_BLUE, linewidth=4.5, alpha=0.4)
        axes.plot([median], [row], "o", color=_BLUE, markersize=4)
        _at_the_right(axes, row, f"{section.n:,}")
    _at_the_right(axes, -1, "examples")
    axes.set_yticks(
        range(len(sections)), [section_label(section.section) for section in sections], fontsize=7
    )
    axes.set_ylim(max(len(sections), _FEWEST_ROWS) - 0.5, -1.5)  # the first on top
    axes.set_xlim(0, 1.2 * max((section.quantiles[-1] for section in sections), default=1.0))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("Weight of the section")
    _title(axes, "a  Weight by section")


def _at_the_right(axes: Axes, row: float, text: str) -> None:
    axes.annotate(text, (1, row), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=7)


def _against_words(axes: Axes, sections: Sequence[SectionGate], rho: str) -> None:
    xs, ys = [each.n_words for each in sections], [each.mean for each in sections]
    largest = max((each.n for each in sections), default=1)
    areas = [8 + 80 * each.n / largest for each in sections]
    axes.scatter(xs, ys, s=areas, color=_BLUE, alpha=0.55, linewidths=0)
    axes.set(xlabel="Words read around the short form", ylabel="Mean weight")
    axes.set_xlim(0, 1.08 * max([1.0, *xs]))
    axes.set_ylim(0, 1.15 * max(ys, default=1.0))
    for section in sections[:1]:
        _name(axes, section.section, section.n_words, section.mean)
    _title(axes, f"b  {rho}" if rho else "b  Sections here")


def _against_tokens(axes: Axes, alone: Sequence[SectionAlone], rho: str) -> None:
    xs, ys = [each.n_training_tokens for each in alone], [each.weight for each in alone]
    axes.scatter(xs, ys, s=9, color=_ORANGE, alpha=0.45, linewidths=0, marker="D")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _compact(value)))
    axes.set(xlabel="Tokens in training", ylabel="Weight without words")
    if alone:
        least = min(alone, key=lambda each: each.weight)
        _name(axes, least.section, least.n_training_tokens, least.weight)
    _title(axes, f"c  {rho}" if rho else "c  All sections")


def _compact(value: float) -> str:
    """1k for 1,000: ticks of a logarithmic axis stand close."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _name(axes: Axes, name: str, x: float, y: float) -> None:
    """Name a point, on the side where there is room."""
    on_the_right = axes.transLimits.transform(axes.transScale.transform((x, y)))[0] < 0.5
    axes.annotate(
        section_label(name),
        (x, y),
        xytext=(5 if on_the_right else -5, 2),
        textcoords="offset points",
        ha="left" if on_the_right else "right",
        va="bottom",
        fontsize=6.5,
    )


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=8)


def _rho(checks: Sequence[Check], among: str, against: str) -> str:
    for check in checks:
        if (check.among, check.against, check.given) == (among, against, None):
            return f"{written(check.rho)}, n = {check.n:,}"
    return ""


# The figure of the paper's MG: the probabilities of long forms as the section's weight is moved, a panel a section.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


_MOST_LINES = 6  # the others are summed up
_SMALL = 0.02  # a long form that never gets likelier than this is one of the others
_PANELS_A_ROW = 3


def draw_interpolation(paths: Sequence[Interpolation]) -> Figure:
    """One panel a section, side by side; a long form has one colour, line and marker in all of them."""
    named = _long_forms_to_name(paths)
    n_columns = 2 if len(paths) == 4 else min(len(paths), _PANELS_A_ROW)
    n_rows = -(-len(paths) // n_columns)
    width = PAGE_WIDTH if n_columns > 1 else 0.7 * PAGE_WIDTH
    with house_style():
        figure = Figure(figsize=(width, 0.55 + 2.3 * n_rows), layout="constrained")
        panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
        for axes, path in zip(panels.flat, paths, strict=False):
            _panel(axes, path, named)
        for axes in panels.flat[len(paths) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set_ylabel("Probability")
        words = "the words" if any(path.n_words for path in paths) else "no words"
        figure.supxlabel(f"Weight of the section (0: {words}, 1: the section)", fontsize=9)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        if n_columns > 1:
            figure.legend(handles, labels, loc="outside upper center", ncols=4)
        else:
            figure.legend(handles, labels, loc="outside right center")
    return figure


def _panel(axes: Axes, path: Interpolation, named: Sequence[str]) -> None:
    of = {each.long_form: each for each in path.long_forms}
    every = max(1, (len(path.weights) - 1) // 5)
    for number, name in enumerate(named):
        axes.plot(
            path.weights,
            of[name].probabilities,
            color=COLOURS[number % len(COLOURS)],
            linestyle=LINES[number % len(LINES)],
            marker=MARKERS[number % len(MARKERS)],
            markevery=every,
            markersize=4,
            label=label(name),
            clip_on=False,
        )
    others = [each for each in path.long_forms if each.long_form not in named]
    if others:
        together = [sum(at) for at in zip(*(each.probabilities for each in others), strict=True)]
        axes.plot(
            path.weights, together, color=INK, linewidth=0.8, linestyle=":", label=f"{len(others)} others"
        )
    axes.axvline(path.learnt_weight, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.annotate(
        f"learnt {path.learnt_weight:.2f}",
        (path.learnt_weight, 1),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
    )
    axes.set_title(f"{path.short_form} in {label(path.section)}", fontsize=8.5, pad=13)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _long_forms_to_name(paths: Sequence[Interpolation]) -> list[str]:
    """Those that matter in any panel, in the order of the greatest probability that they get."""
    greatest: dict[str, float] = {}
    for path in paths:
        for each in path.long_forms:
            greatest[each.long_form] = max(greatest.get(each.long_form, 0.0), *each.probabilities)
    ranked = sorted(greatest, key=lambda name: -greatest[name])
    if len(ranked) <= _MOST_LINES + 1:
        return ranked
    return [name for name in ranked[:_MOST_LINES] if greatest[name] > _SMALL]


# The figure of mixtures: their components on a plane, and the divergences between them.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


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
        plane.set_title(
            f"{'a  ' if n > 1 else ''}{_mixtures_title(comparison, part)}", loc="left", fontsize=9
        )
        _plane(plane, comparison, n_named=_N_NAMED if n > 1 else _N_SHOWN, part_label=part_label)
    return figure


def _mixtures_title(comparison: Comparison, part: str) -> str:
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


# The figure of uncertainty: both parts of the words' variance against frequency, sections and senses.
#
# Imports matplotlib, so nothing imports this file before a figure is drawn.


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
                    f"{next(letters)}  {_uncertainty_rho(associations, variance, against)}",
                    fontsize=8.5,
                    loc="left",
                )
            row[0].set_ylabel(title)
            row[0].set_ylim(*_uncertainty_limits(values, also=[getattr(word, variance) for word in named]))
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
        extent=(*np.log10(_uncertainty_limits(xs)), *_uncertainty_limits(ys)),
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


def _uncertainty_rho(associations: Sequence[Association], variance: Variance, against: str) -> str:
    for each in associations:
        if (each.variance, each.against, each.given) == (variance, against, None):
            return written(each.rho)
    return "ρ not defined"


def _uncertainty_limits(values: Floats, *, also: Sequence[float] = ()) -> tuple[float, float]:
    """Without the outermost few words, which would make the rest small, unless they were asked for."""
    low, high = np.quantile(values, [0.001, 0.999])
    low, high = min([low, *also]), max([high, *also])
    room = 0.04 * (high - low) or 0.1 * abs(float(high)) or 1.0
    return float(low - room) if low - room > 0 else float(low), float(high + room)
