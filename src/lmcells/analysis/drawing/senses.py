"""A word under its sections, as a table in colour: the numbers are printed, the colour says which are unusual.

Imports matplotlib, so nothing imports this file before a figure is drawn.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from lmcells.analysis.drawing.labels import section_label
from lmcells.analysis.words.senses import SectionSense, WordSenses
from lmcells.figure_style import COLOURS, INK, PAGE_WIDTH, house_style, label

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
