"""What a model reads of a short form in a text: its word, its section, and the words around it."""

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lmcells.corpus.windows import RADIUS
from lmcells.notes.tokens import Token, iterate_tokens, spell


@dataclass(frozen=True, slots=True)
class Mention:
    """A short form at `text[start:end]`; `text` is, or lies within, the section named `section`."""

    text: str = field(repr=False)  # patient data: never in a log or a traceback
    start: int
    end: int
    short_form: str
    section: str | None


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """Mentions as the networks take them. A short form that is no word of the model is a masked center."""

    center: npt.NDArray[np.int64]  # (B,)
    center_mask: npt.NDArray[np.bool_]  # (B,) whether the model knows the short form as a word
    context: npt.NDArray[np.int64]  # (B, 2 * radius), one more where the gap is marked
    context_mask: npt.NDArray[np.bool_]  # as the context
    unknown: npt.NDArray[np.float32] | None = None  # (n, E), of words whose ids follow those of the model


def window_text(mention: Mention, *, words: Container[str] | None = None, radius: int = RADIUS) -> str:
    """Return the same window as it is written: from the first of its words to the last, with all in between."""
    left, right = tokens_around(mention, words=words, radius=radius)
    start = left[0].start if left else mention.start
    end = right[-1].end if right else mention.end
    return mention.text[start:end]


def tokens_around(
    mention: Mention, *, words: Container[str] | None = None, radius: int = RADIUS, stop_words: bool = False
) -> tuple[list[Token], list[Token]]:
    """Return up to `radius` tokens on either side that are among `words`; a word right after itself counts once."""
    left: list[Token] = []
    right: list[Token] = []
    side, previous = left, ""
    center = spell(mention.short_form)
    nearest = None
    for token in iterate_tokens(mention.text, stop_words=stop_words):
        if token.end <= mention.start:
            nearest = token
        if token.start >= mention.end and side is left:
            side, previous = right, center
        if (
            token.word != previous
            and (token.end <= mention.start or side is right)
            and (words is None or token.word in words)
        ):
            side.append(token)
            if len(right) == radius:
                break
        previous = token.word
    if left and left[-1] is nearest and nearest.word == center:
        left.pop()  # "PT PT": the corpus has one of them, the center
    return left[-radius:], right
