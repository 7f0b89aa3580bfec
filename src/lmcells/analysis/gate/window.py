"""One window, read once, under as many sections and weights of them as one likes.

window = read_window(ranker, "MG")                                    # the null context
window = read_window(ranker, "MG", text="thymectomy for MG in 2009")
cells(ranker.model, window, np.arange(n_sections))                    # the cell under each section
cells(ranker.model, window, np.full(21, section), gate=np.linspace(0, 1, 21))
"""

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.expansion.context import Mention, ReadWindows
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_lstm import Ids
from lmcells.pretrained.numpy_network import Gate, NumpyPosterior
from lmcells.pretrained.subwords import TABLE

_NOBODY = "&"  # a short form that holds no token, so no word of any model


def read_window(
    ranker: PosteriorRanker, short_form: str, *, text: str | None = None, start: int = 0
) -> ReadWindows:
    """What the model reads around the first place of a short form in a text, from `start` on; without text, nothing.

    The null context is a window without words. A ranking that marks the gap of a short form has the mark there. One
    that reads the short form itself has a place that holds no word (a zero vector) beside it: the center enters q only
    beside a context word, so in a window of no places at all it would say nothing.
    """
    if text is None:
        return _beside_nothing(ranker.model, _read_alone(ranker, short_form))
    return ranker.read([_find(short_form, text, start)])


def empty_window(ranker: PosteriorRanker) -> ReadWindows:
    """The null context of no short form in particular: what remains is the section."""
    return _read_alone(ranker, _NOBODY)


def n_words_read(model: PretrainedModel, windows: ReadWindows) -> npt.NDArray[np.int64]:
    """How many words stand in each window; the mark of a gap is none: -> (B,)."""
    n_marks = windows.context.shape[1] - 2 * model.sizes.window
    n_words: npt.NDArray[np.int64] = windows.context_mask.sum(axis=1) - n_marks
    return n_words


def cells(
    model: PretrainedModel, window: ReadWindows, metadata: Ids, *, gate: Gate | None = None
) -> NumpyPosterior:
    """q(z | w, m, c) of one window, once for each metadata; null where it is below 0."""
    n = len(metadata)
    return model.variational.posterior(
        np.repeat(window.center, n),
        metadata,
        np.repeat(window.context, n, axis=0),
        np.repeat(window.context_mask, n, axis=0),
        center_mask=np.repeat(window.center_mask, n),
        gate=gate,
        unknown=window.unknown,
    )


def _read_alone(ranker: PosteriorRanker, short_form: str) -> ReadWindows:
    return ranker.read([Mention("", 0, 0, short_form, None)])


def _find(short_form: str, text: str, start: int) -> Mention:
    """As it is written, or else in another case; the user names it, so a unit or a word in capitals counts too."""
    alone = rf"(?<!\w){re.escape(short_form)}(?!\w)"
    found = re.compile(alone).search(text, start) or re.compile(alone, re.IGNORECASE).search(text, start)
    if found is None:
        raise InputError(f"the text does not hold {short_form!r} as a word. Give a text in which it stands.")
    return Mention(text, found.start(), found.end(), short_form, None)


def _beside_nothing(model: PretrainedModel, window: ReadWindows) -> ReadWindows:
    if window.context_mask.any() or not window.center_mask.any():
        return window
    context, mask = window.context.copy(), window.context_mask.copy()
    context[:, 0], mask[:, 0] = len(model.arrays[TABLE]), True
    return replace(
        window,
        context=context,
        context_mask=mask,
        unknown=np.zeros((1, model.sizes.embedding_dim), np.float32),
    )
