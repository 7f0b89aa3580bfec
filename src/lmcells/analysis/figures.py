"""Figures of neighbors, senses, the gate and interpolation; those with named points are in `point_figures`.

Imports matplotlib, so nothing imports this module before a figure is drawn.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from lmcells.analysis import Row
from lmcells.analysis.gate import ALONE, LEAST_EXAMPLES, SECTIONS, TOKENS, WORDS
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.sections import NETWORK_NAMES
from lmcells.analysis.statistics import with_interval
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.figure_style import COLOURS, GRID, INK, LINES, MARKERS, PAGE_WIDTH, house_style, label

_MEASURES = {"divergence": "KL divergence (nats)", "cosine": "Cosine of the means"}
# The model's own names for text without a header.
_UNNAMED = {NULL_SECTION: "no section", NO_SECTION: "no section", OTHER: "rare sections"}


@contextmanager
def page(height: float, width: float = 1.0, **how: Any) -> Iterator[Figure]:
    """An empty figure in our style: its height in inches, its width as a share of the page's."""
    with house_style():
        yield Figure(figsize=(width * PAGE_WIDTH, height), **{"layout": "constrained", **how})


def style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def bare(axes: Axes, **ticks: Any) -> None:
    """Take away the grid, the frame and the tick marks: the values are written out."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, **ticks)


def section_label(section: str) -> str:
    return _UNNAMED.get(section, label(section))


def rho_label(rho: Row) -> str:
    """ρ with its interval, and a real minus sign."""
    return f"ρ = {with_interval(rho)}".replace("-", "−")


def _write(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **how: Any) -> None:
    """Write a text at an offset in points from a place in the data."""
    how = {"ha": "center", "va": "center", "fontsize": 7, **how}
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **how)


def draw_nearest_words(found: Row) -> Figure:
    """One row per word, the nearest on top."""
    with page(0.85 + 0.19 * len(found.neighbors), 0.55) as figure:
        axes = figure.subplots()
        values = [getattr(each, found.measure) for each in found.neighbors]
        _draw_ranking(axes, [each.word for each in found.neighbors], values)
        axes.set_xlabel(_MEASURES[found.measure])
        under = "on average" if found.section is None else f"under {section_label(found.section)}"
        axes.set_title(f"{label(found.word)} {under}")
    return figure


def draw_nearest_sections(found: Row) -> Figure:
    """The nearest sections in the variational network and in the model network, side by side."""
    near_by = (found.variational, found.prior)
    with page(0.9 + 0.2 * max(map(len, near_by))) as figure:
        panels = figure.subplots(1, 2, sharex=True)
        for axes, near, title in zip(panels, near_by, NETWORK_NAMES.values(), strict=True):
            _draw_ranking(axes, [each.section for each in near], [each.cosine for each in near])
            axes.set_title(title)
        cosines = [each.cosine for near in near_by for each in near]
        panels[0].set_xlim(1.2 * min(0.0, *cosines), 1.2 * max(0.0, *cosines) or 1.0)
        figure.supxlabel(f"Cosine with {label(found.section)}", fontsize=9)
    return figure


def _draw_ranking(axes: Axes, names: Sequence[str], values: Sequence[float]) -> None:
    """Names from top to bottom, each with its value as a point and in digits."""
    rows = range(len(names))
    axes.hlines(rows, 0, values, color=GRID, linewidth=1.0)
    axes.plot(values, rows, "o", color=COLOURS[0], markersize=4.5)
    for row, value in enumerate(values):
        side = 1 if value >= 0 else -1
        align = "left" if side > 0 else "right"
        _write(axes, f"{value:.2f}", (value, row), (5 * side, 0), ha=align, va="center_baseline")
    axes.set_yticks(rows, [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first on top
    axes.grid(visible=False)  # the values are written out
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(min(0.0, *values) * 1.2, max(0.0, *values) * 1.2 or 1.0)


# Orange and blue: distinct for the colour-blind, and one much darker in grey.
_PULL = LinearSegmentedColormap.from_list("pull", [COLOURS[4], "#ffffff", COLOURS[0]])
_FOLD = 3.0  # the ratio at which a colour is full
_N_WIDE, _N_SLANTED, _N_UPRIGHT = 18, 16, 28  # columns with room for full-size digits, slanted, upright names


def draw_senses(senses: Row) -> Figure:
    """One row per section and one for the average, one column per word: its probability and ratio to the average."""
    rows = [*senses.sections, senses.average]
    with page(1.25 + 0.36 * len(rows)) as figure:
        axes = figure.subplots()
        ratios = np.array([[each.ratio for each in row.likenesses] for row in rows])
        folds, full = np.log2(np.clip(ratios, 1 / _FOLD, _FOLD)), np.log2(_FOLD)
        image = axes.imshow(folds, cmap=_PULL, vmin=-full, vmax=full, aspect="auto", alpha=0.6)
        for number, row in enumerate(rows):
            _write_row(axes, number, row, is_average=number == len(rows) - 1)
        axes.axhline(len(rows) - 1.5, color=INK, linewidth=1.0)
        n, words = len(senses.words), [label(word) for word in senses.words]
        slant: dict[str, Any] = {"rotation": 40, "ha": "left"}
        slant |= {"rotation": 90, "ha": "center"} if n > _N_SLANTED else {}
        axes.set_xticks(range(n), words, fontsize=9 * min(1.0, _N_UPRIGHT / n), **slant)
        names = ["average" if row.section is None else section_label(row.section) for row in rows]
        axes.set_yticks(range(len(rows)), names)
        bare(axes, top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.set_title(f"What {label(senses.word)!r} is near to, by section (%)", loc="left")
        ticks = np.log2([1 / _FOLD, 1 / 2, 1, 2, _FOLD]).tolist()
        bar = figure.colorbar(image, ax=axes, ticks=ticks, aspect=14, pad=0.015)
        bar.ax.set_yticklabels(["× ⅓", "× ½", "× 1", "× 2", "× 3"])
        bar.ax.tick_params(labelsize=7, length=2)
        bar.set_label("against the average", fontsize=7.5)
    return figure


def _write_row(axes: Axes, number: int, row: Row, *, is_average: bool) -> None:
    most = max(each.probability for each in row.likenesses)
    scale = min(1.0, _N_WIDE / len(row.likenesses))
    for column, each in enumerate(row.likenesses):
        at, weight = (column, number), "bold" if each.probability == most else "normal"
        percent, offset = f"{100 * each.probability:.0f}", (0, 0 if is_average else 4)
        _write(axes, percent, at, offset, fontsize=8 * scale, fontweight=weight)
        if not is_average:
            _write(axes, f"×{each.ratio:.1f}", at, (0, -5), fontsize=6 * scale)


_MOST_ROWS, _FEWEST_ROWS = 24, 12
_BLUE, _ORANGE = COLOURS[0], COLOURS[1]


def draw_gate(summary: Row, checks: Sequence[Row], alone: Sequence[Row]) -> Figure:
    """Quantiles of the weight by section; beside them the weight against two measures of a section's size."""
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES] or summary.sections
    n = min(len(sections), _MOST_ROWS)
    evenly = np.linspace(0, len(sections) - 1, n).round().astype(int).tolist()
    with page(max(4.2, 0.9 + 0.19 * n)) as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
        _draw_quantiles(figure.add_subplot(grid[:, 0]), [sections[row] for row in evenly])
        axes = figure.add_subplot(grid[0, 1])
        xs, ys = [each.n_words for each in sections], [each.mean for each in sections]
        largest = max((each.n for each in sections), default=1)
        areas = [8 + 80 * each.n / largest for each in sections]
        axes.scatter(xs, ys, s=areas, color=_BLUE, alpha=0.55, linewidths=0)
        axes.set(xlabel="Words read around the short form", ylabel="Mean weight")
        axes.set(xlim=(0, 1.08 * max([1.0, *xs])), ylim=(0, 1.15 * max(ys, default=1.0)))
        if sections:
            _name(axes, sections[0].section, xs[0], ys[0])
        axes.set_title(f"b  {_rho_of(checks, SECTIONS, WORDS) or 'Sections here'}", loc="left", fontsize=8)
        axes = figure.add_subplot(grid[1, 1])
        tokens, weights = [each.n_training_tokens for each in alone], [each.weight for each in alone]
        axes.scatter(tokens, weights, s=9, color=_ORANGE, alpha=0.45, linewidths=0, marker="D")
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 1k: the ticks are close together
        axes.set(xlabel="Tokens in training", ylabel="Weight without words")
        if alone:
            least = min(alone, key=lambda each: each.weight)
            axes.margins(y=0.1)  # room for its name
            _name(axes, least.section, least.n_training_tokens, least.weight, is_below=True)
        axes.set_title(f"c  {_rho_of(checks, ALONE, TOKENS) or 'All sections'}", loc="left", fontsize=8)
    return figure


def _draw_quantiles(axes: Axes, sections: Sequence[Row]) -> None:
    """A dot at the median, a bar over the middle half, a line over the middle 80 %."""
    at_right: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right"}
    for row, section in enumerate(sections):
        tenth, quarter, median, three_quarters, nine_tenths = section.quantiles
        axes.hlines(row, tenth, nine_tenths, color=_BLUE, linewidth=1.0)
        axes.hlines(row, quarter, three_quarters, color=_BLUE, linewidth=4.5, alpha=0.4)
        axes.plot([median], [row], "o", color=_BLUE, markersize=4)
        _write(axes, f"{section.n:,}", (1, row), (0, 0), **at_right)
    _write(axes, "examples", (1, -1), (0, 0), **at_right)
    names = [section_label(section.section) for section in sections]
    axes.set_yticks(range(len(sections)), names, fontsize=7)
    axes.set_ylim(max(len(sections), _FEWEST_ROWS) - 0.5, -1.5)  # the first on top
    axes.set_xlim(0, 1.2 * max((section.quantiles[-1] for section in sections), default=1.0))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("Weight of the section")
    axes.set_title("a  Weight by section", loc="left", fontsize=8)


def _name(axes: Axes, name: str, x: float, y: float, *, is_below: bool = False) -> None:
    """Name a point, on the side where there is room, above it or below."""
    side = 1 if axes.transLimits.transform(axes.transScale.transform((x, y)))[0] < 0.5 else -1
    align: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "top" if is_below else "bottom"}
    _write(axes, section_label(name), (x, y), (5 * side, -2 if is_below else 2), fontsize=6.5, **align)


def _rho_of(checks: Sequence[Row], among: str, against: str) -> str:
    for check in checks:
        if (check.among, check.against, check.given) == (among, against, None):
            return f"{rho_label(check.rho)}, n = {check.n:,}"
    return ""


_MOST_LINES = 6  # the other long forms are added up
_SMALL = 0.02  # a long form that never gets more probable is one of the others
_PANELS_A_ROW = 3


def draw_interpolation(paths: Sequence[Row]) -> Figure:
    """The paper's figure of MG: one panel per section; a long form has one colour, line and marker in all of them."""
    named = _long_forms_to_name(paths)
    n_columns = 2 if len(paths) == 4 else min(len(paths), _PANELS_A_ROW)
    n_rows = -(-len(paths) // n_columns)
    with page(0.55 + 2.3 * n_rows, 1 if n_columns > 1 else 0.7) as figure:
        panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
        for axes, path in zip(panels.flat, paths, strict=False):
            _draw_path(axes, path, named)
        for axes in panels.flat[len(paths) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set_ylabel("Probability")
        words = "the words" if any(path.n_words for path in paths) else "no words"
        figure.supxlabel(f"Weight of the section (0: {words}, 1: the section)", fontsize=9)
        above = {"loc": "outside upper center", "ncols": 4}
        place: dict[str, Any] = above if n_columns > 1 else {"loc": "outside right center"}
        figure.legend(*panels[0, 0].get_legend_handles_labels(), **place)
    return figure


def _draw_path(axes: Axes, path: Row, named: Sequence[str]) -> None:
    of = {each.long_form: each for each in path.long_forms}
    for number, name in enumerate(named):
        how = {**style(number), "linestyle": LINES[number % len(LINES)], "markersize": 4, "clip_on": False}
        every = max(1, (len(path.weights) - 1) // 5)
        axes.plot(path.weights, of[name].probabilities, label=label(name), markevery=every, **how)
    others = [each.probabilities for each in path.long_forms if each.long_form not in named]
    if others:
        total = np.sum(others, axis=0)
        axes.plot(path.weights, total, ":", color=INK, linewidth=0.8, label=f"{len(others)} others")
    axes.axvline(path.learnt_weight, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    _write(axes, f"learnt {path.learnt_weight:.2f}", (path.learnt_weight, 1), (0, 2), va="bottom")
    axes.set_title(f"{path.short_form} in {label(path.section)}", fontsize=8.5, pad=13)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.set(xlim=(0, 1), ylim=(0, 1))


def _long_forms_to_name(paths: Sequence[Row]) -> list[str]:
    """The long forms that are probable in any panel: the best at an end of one first, then by largest probability."""
    greatest: dict[str, float] = {}
    best = set()
    for path in paths:
        best |= {max(path.long_forms, key=lambda each: each.probabilities[end]).long_form for end in (0, -1)}
        for each in path.long_forms:
            greatest[each.long_form] = max(greatest.get(each.long_form, 0.0), *each.probabilities)
    ranked = sorted(greatest, key=lambda name: (name not in best, -greatest[name]))
    if len(ranked) <= _MOST_LINES + 1:
        return ranked
    return [name for name in ranked[:_MOST_LINES] if greatest[name] > _SMALL]
