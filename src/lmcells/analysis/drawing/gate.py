"""The figure of the gate: its weight by section, and whether short, topical sections get more.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from lmcells.analysis.drawing.correlation import written
from lmcells.analysis.drawing.labels import section_label
from lmcells.analysis.gate.checks import ALONE, LEAST_EXAMPLES, SECTIONS, TOKENS, WORDS, Check
from lmcells.analysis.gate.summary import GateSummary, SectionGate
from lmcells.analysis.gate.weights import SectionAlone
from lmcells.figure_style import COLOURS, PAGE_WIDTH, house_style

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
