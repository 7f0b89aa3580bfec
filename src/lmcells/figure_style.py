"""The style of every figure: vector graphics, colour-blind-safe colours, selectable text.

Imports matplotlib, so import this file only to draw. Draw inside `house_style()`, and give every line its own marker or
line style: no figure depends on colour alone.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from lmcells.files import atomic_write

INK, GRID, PAPER = "#1b1b1b", "#d4d4d4", "#ffffff"
# Okabe and Ito (2008), darkest first, with INK for their black and without their yellow, which is invisible on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = "osD^vPX<>*hd"
LINES = ("-", "--", "-.", ":")
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "pdf.fonttype": 42,  # TrueType, so that text stays selectable
    "svg.fonttype": "none",
    "svg.hashsalt": "lmcells",  # equal results give equal files
    "text.color": INK,
    "text.parse_math": False,  # "$" in a name is not math
    "xtick.color": INK,
    "ytick.color": INK,
}
PAGE_WIDTH = 7.0  # inches of text on a page
DPI = 200  # of rasterised parts


def save(figure: Figure, stem: Path) -> None:
    """Write `stem.svg` and `stem.pdf`."""
    for suffix in (".svg", ".pdf"):
        save_as(figure, stem.with_suffix(suffix))


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the suffix names, undated, so that equal results give equal files."""
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    kind = path.suffix.lower()
    with house_style(), atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind[1:], metadata=dated.get(kind), dpi=DPI)


def label(name: str) -> str:
    """Return a name shortened to a label; matplotlib hides labels that begin with an underscore."""
    printable = "".join(character if character.isprintable() else " " for character in name)
    shown = printable if len(printable) <= 28 else printable[:13] + "…" + printable[-14:]
    return " " + shown if shown.startswith("_") else shown


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the style; ignore warnings about missing glyphs, since names come from the user's data."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")
        yield
