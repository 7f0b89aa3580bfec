"""The figure of the paper's MG: the probabilities of long forms as the section's weight is moved, a panel a section.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmcells.analysis.gate.interpolation import Interpolation
from lmcells.figure_style import COLOURS, INK, LINES, MARKERS, PAGE_WIDTH, house_style, label

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
