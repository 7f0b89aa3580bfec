"""What an answer rests on: how the model shared its attention, and what it would lose without each thing it read.

lexicon reads a note into occurrences, the ranker ranks them, and:
    explain(ranker, occurrences)[0].section_weight          # 0 to 1; the rest is the words'
    explain(ranker, occurrences)[0].section_effect          # by how much the log-odds would fall without the section
    explain(ranker, occurrences)[0].words                   # WordRead(start, end, word, weight, effect), in order

Gate and attention say where the network looked, not what came of it: a gap reader takes the words next to the short
form past both. So each word is also hidden in turn, and the section withheld, and the candidates are scored again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import PosteriorRanker, batches
from lmcells.expansion.reader import Occurrence
from lmcells.expansion.windows import NULL, Mention, ReadWindows, tokens_around

MOST_EXPLAINED = 200  # mentions of a note whose effects are worked out: each costs as much as ranking thirty


@dataclass(frozen=True, slots=True)
class WordRead:
    """A word at `note[start:end]`, in the vocabulary's spelling, its share of the attention, and its effect.

    The effect is by how much the log-odds of the likeliest sense would fall without the word; below 0 it speaks against
    that sense. None at the place of the short form itself, and where there is no other sense to compare.
    """

    start: int
    end: int
    word: str = field(repr=False)  # of the note: patient data, never in a log or a traceback
    weight: float
    effect: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How much the section weighed against the words (the gate), what it did, and the words that were read.

    The section's effect is None where there is none, or no other sense.
    """

    section_weight: float
    section_effect: float | None
    words: tuple[WordRead, ...]


def explain(
    ranker: object,
    occurrences: Sequence[Occurrence],
    *,
    evidence: Sequence[Floats] | None = None,
    temperature: float = 1.0,
) -> list[Explanation | None]:
    """Explain occurrences of one note; None where nothing was ranked, since the note says what is meant.

    `evidence` has for each mention what the rest of the note added to the scores of its candidates, and `temperature`
    is that of the calibration, so that effects are on the odds of the probabilities that were answered.
    """
    if not isinstance(ranker, PosteriorRanker):
        raise InputError(
            f"a {type(ranker).__name__} cannot be explained. Allowed: rankers that read a model's cells."
        )
    ranked = [(each, each.mention) for each in occurrences if each.mention is not None]
    odds = _Odds(ranker, evidence, temperature)
    explained = iter(_explain(ranker, ranked, odds))
    return [None if each.mention is None else next(explained) for each in occurrences]


def _explain(
    ranker: PosteriorRanker, ranked: Sequence[tuple[Occurrence, Mention]], odds: "_Odds"
) -> list[Explanation]:
    explanations: list[Explanation] = []
    for batch in batches([mention for _, mention in ranked]):
        windows, sections = ranker.read(batch), ranker.section_ids(batch)
        posterior = ranker.posterior(windows, sections)
        for row, mention in enumerate(batch):
            index, place = len(explanations), ranked[len(explanations)][0]
            weights = posterior.attention[row][windows.context_mask[row]].tolist()
            read = _words_read(ranker, place, mention, len(weights))
            of_section, of_words = odds.effects(index, mention, windows, row, int(sections[row]))
            words = tuple(
                WordRead(start, end, word, weight, None if start == place.start else effect)
                for (start, end, word), weight, effect in zip(read, weights, of_words, strict=True)
            )
            explanations.append(Explanation(float(posterior.gate[row]), of_section, words))
    return explanations


class _Odds:
    """Scores the candidates of a mention again, with something hidden."""

    def __init__(
        self, ranker: PosteriorRanker, evidence: Sequence[Floats] | None, temperature: float
    ) -> None:
        self._ranker, self._evidence, self._temperature = ranker, evidence, temperature
        self._n_explained = 0

    def effects(
        self, index: int, mention: Mention, windows: ReadWindows, row: int, section: int
    ) -> tuple[float | None, list[float | None]]:
        """What the section, and each word of a window, adds to the log-odds of the likeliest sense."""
        (positions,) = np.nonzero(windows.context_mask[row])
        nothing: list[float | None] = [None] * len(positions)
        if len(self._ranker.inventory.senses(mention.short_form)) < 2 or self._n_explained == MOST_EXPLAINED:
            return None, nothing
        hidden = _left_out(windows, row, positions)
        sections = np.full(len(hidden.center), section)
        sections[1] = NULL
        posterior = self._ranker.posterior(hidden, sections)
        scores = self._ranker.scorer(posterior)(mention.short_form, list(range(len(sections))))  # (W, K)
        if self._evidence is not None:
            scores = scores + self._evidence[index]
        scores = scores[:, np.isfinite(scores[0])] / self._temperature
        if scores.shape[1] < 2:
            return None, nothing
        self._n_explained += 1
        odds = _log_odds(scores, best=int(scores[0].argmax()))
        lost: list[float] = (odds[0] - odds).tolist()
        return None if mention.section is None else lost[1], [*lost[2:]]


def _left_out(windows: ReadWindows, row: int, positions: npt.NDArray[np.intp]) -> ReadWindows:
    """A window as it is, twice, and then once without the word at each of these positions."""
    n_windows = len(positions) + 2
    masks = np.repeat(windows.context_mask[row][None], n_windows, axis=0)
    masks[np.arange(len(positions)) + 2, positions] = False
    return ReadWindows(
        center=np.repeat(windows.center[row], n_windows),
        center_mask=np.repeat(windows.center_mask[row], n_windows),
        context=np.repeat(windows.context[row][None], n_windows, axis=0),
        context_mask=masks,
        unknown=windows.unknown,
    )


def _log_odds(scores: Floats, *, best: int) -> Floats:
    """Of one column against the others together: (W, K) -> (W,)."""
    others = np.delete(scores, best, axis=1)
    odds: Floats = scores[:, best] - np.logaddexp.reduce(others, axis=1)
    return odds


def _words_read(
    ranker: PosteriorRanker, place: Occurrence, mention: Mention, n_read: int
) -> list[tuple[int, int, str]]:
    """Name the positions of a window, in the note's offsets; a marked gap is where the short form stands."""
    left, right = tokens_around(
        mention,
        words=ranker.reads,
        radius=ranker.model.sizes.window,
        stop_words=ranker.model.reads_stop_words,
    )
    shift = place.start - mention.start
    read = [(token.start + shift, token.end + shift, token.word) for token in left]
    if n_read > len(left) + len(right):
        read.append((place.start, place.end, place.short_form))
    return read + [(token.start + shift, token.end + shift, token.word) for token in right]
