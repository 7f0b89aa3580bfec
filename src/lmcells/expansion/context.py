"""What a model reads of a short form in a text: its word, its section, and the words around it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lmcells.corpus.windows import RADIUS
from lmcells.notes.tokens import Token, iterate_tokens, spell

UNKNOWN = -1


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
    context: npt.NDArray[np.int64]  # (B, 2 * radius)
    context_mask: npt.NDArray[np.bool_]  # (B, 2 * radius)


def read_windows(
    mentions: Sequence[Mention], *, word_ids: Mapping[str, int], radius: int = RADIUS
) -> ReadWindows:
    """Gather, for each mention, up to `radius` known words on either side, as the corpus would."""
    center = np.zeros(len(mentions), np.int64)
    center_mask = np.zeros(len(mentions), np.bool_)
    context = np.zeros((len(mentions), 2 * radius), np.int64)
    context_mask = np.zeros(context.shape, np.bool_)
    for row, mention in enumerate(mentions):
        tokens = list(iterate_tokens(mention.text))
        left = _known((token for token in tokens if token.end <= mention.start), word_ids)[-radius:]
        right = _known((token for token in tokens if token.start >= mention.end), word_ids)[:radius]
        context[row, radius - len(left) : radius + len(right)] = left + right
        context_mask[row, radius - len(left) : radius + len(right)] = True
        word = word_ids.get(spell(mention.short_form), UNKNOWN)
        if word != UNKNOWN:
            center[row], center_mask[row] = word, True
    return ReadWindows(center, center_mask, context, context_mask)


def _known(tokens: Iterable[Token], word_ids: Mapping[str, int]) -> list[int]:
    """Return the ids of the words that are in the vocabulary; a word right after itself counts once."""
    ids: list[int] = []
    previous = ""
    for token in tokens:
        if token.word != previous and token.word in word_ids:
            ids.append(word_ids[token.word])
        previous = token.word
    return ids
