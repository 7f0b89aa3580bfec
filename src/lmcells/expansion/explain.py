"""Explaining an answer: where the model looked, and the effect of the section and of each word.

    explanation = explain(ranker, mentions)[0]
    explanation.section_weight          # 0 to 1; the words have the rest
    explanation.section_effect          # how much the log-odds would fall without the section
    explanation.words                   # WordRead(start, end, word, weight, effect), in order

Gate and attention show where the network looked, not the effect: in the masked-span reader, the words next to the short
form bypass both. So each word is also hidden in turn, and the section withheld, and the candidates are scored again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lmcells.errors import InputError
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import PosteriorRanker, batches
from lmcells.expansion.windows import NULL, Mention
from lmcells.notes.tokens import Token
from lmcells.pretrained import ReadWindows

MOST_EXPLAINED = 200  # mentions of a note whose effects are computed, each at the cost of ranking thirty


@dataclass(frozen=True, slots=True)
class WordRead:
    """A word at `note[start:end]`, in the vocabulary's spelling, its attention weight, and its effect.

    The effect is how much the log-odds of the most likely sense would fall without the word; if it is negative, the
    word is evidence against that sense. None for the short form itself, and if there is no other sense.
    """

    start: int
    end: int
    word: str = field(repr=False)  # patient data: never in a log or a traceback
    weight: float
    effect: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The weight of the section against the words (the gate), its effect, and the words of the window.

    The section's effect is None if there is no section, or no other sense.
    """

    section_weight: float
    section_effect: float | None
    words: tuple[WordRead, ...]


def explain(
    ranker: object,
    mentions: Sequence[Mention],
    *,
    evidence: Sequence[Floats] | None = None,
    temperature: float = 1.0,
) -> list[Explanation]:
    """Explain mentions of one note, in order.

    `evidence` is what the rest of the note and the priors add to the scores of each mention's candidates, -inf for one
    that a rule forbids. `temperature` is the calibration's, so that effects refer to the odds of the answer.
    """
    if not isinstance(ranker, PosteriorRanker):
        raise InputError(
            f"a {type(ranker).__name__} cannot be explained. Allowed: rankers by the posterior of a model."
        )
    explanations: list[Explanation] = []
    n_left = MOST_EXPLAINED
    for batch in batches(mentions):
        windows, sections = ranker.read(batch), ranker.section_ids(batch)
        posterior = ranker.posterior(windows, sections)
        for row, (mention, sides) in enumerate(zip(batch, ranker.read.words_read(batch), strict=True)):
            lost = None
            if n_left:
                lost = _losses(
                    ranker,
                    mention,
                    windows,
                    row,
                    section=int(sections[row]),
                    evidence=np.float64(0) if evidence is None else evidence[len(explanations)],
                    temperature=temperature,
                )
            n_left -= lost is not None
            left, right = sides
            weights = posterior.attention[row][windows.context_mask[row]].tolist()
            own = Token(mention.short_form, mention.start, mention.end)
            has_position = len(weights) > len(left) + len(right)  # of the masked span
            read = [*left, *([own] if has_position else []), *right]
            effects: Sequence[float | None] = [None] * len(weights) if lost is None else lost[1:]
            words = tuple(
                WordRead(
                    token.start + mention.offset,
                    token.end + mention.offset,
                    token.word,
                    weight,
                    None if token is own else effect,
                )
                for token, weight, effect in zip(read, weights, effects, strict=True)
            )
            of_section = None if lost is None or mention.section is None else lost[0]
            explanations.append(Explanation(float(posterior.gate[row]), of_section, words))
    return explanations


def _losses(
    ranker: PosteriorRanker,
    mention: Mention,
    windows: ReadWindows,
    row: int,
    *,
    section: int,
    evidence: Floats | np.float64,
    temperature: float,
) -> list[float] | None:
    """Return how much the log-odds of the most likely sense fall without the section, and without each word."""
    if len(ranker.inventory.senses(mention.short_form)) < 2:
        return None
    (positions,) = np.nonzero(windows.context_mask[row])
    # The window unchanged, without its section, and without each of its words:
    hidden = windows.rows(np.full(len(positions) + 2, row))
    hidden.context_mask[np.arange(len(positions)) + 2, positions] = False
    sections = np.full(len(hidden.center), section)
    sections[1] = NULL
    posterior = ranker.posterior(hidden, sections)
    scores = ranker.posterior_scores(mention.short_form, posterior, hidden.context_mask) + evidence  # (W, K)
    scores = scores[:, np.isfinite(scores[0])] / temperature
    if scores.shape[1] < 2:
        return None
    best = int(scores[0].argmax())
    odds = scores[:, best] - np.logaddexp.reduce(np.delete(scores, best, axis=1), axis=1)  # (W,)
    lost: list[float] = (odds[0] - odds).tolist()
    return lost[1:]
