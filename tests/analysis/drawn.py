"""The words of a figure and the boxes that they are drawn in, at the resolution that figures are saved in."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from lmcells.figure_style import DPI


def drawn_texts(figure: Figure) -> tuple[list[str], np.ndarray]:
    """The texts that are seen and do not stand askew, and their boxes (n, 4): left, below, right, above, in pixels."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and not text.get_rotation() % 90
    ]
    boxes = [text.get_window_extent(canvas.get_renderer()).extents for text in shown]
    return [text.get_text() for text in shown], np.array(boxes)
