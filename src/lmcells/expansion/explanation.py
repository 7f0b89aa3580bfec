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

from lmcells.errors import InputError
from lmcells.expansion.context import Mention, ReadWindows, tokens_around
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.note_reader import Occurrence
from lmcells.expansion.posterior_ranking import PosteriorRanker, batches
from lmcells.expansion.section_ids import NULL


@dataclass(frozen=True, slots=True)
class WordRead:
    """A word at `note[start:end]`, in the vocabulary's spelling, its share of the attention, and its effect.

    The effect is by how much the log-odds of the best sense would fall without the word; below 0 it speaks against
    that sense. Where the short form stands, there is no word to hide, and no effect.
    """

    start: int
    end: int
    word: str = field(repr=False)  # of the note: patient data, never in a log or a traceback
    weight: float
    effect: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """How much the section weighed against the words (the gate), what it did, and the words that were read."""

    section_weight: float
    section_effect: float
    words: tuple[WordRead, ...]


def explain(
    ranker: object, occurrences: Sequence[Occurrence], *, temperature: float = 1.0
) -> list[Explanation | None]:
    """Explain occurrences of one note; None where nothing was ranked, since the note says what is meant.

    `temperature` is that of the calibration, so that effects are on the scale of the probabilities.
    """
    if not isinstance(ranker, PosteriorRanker):
        raise InputError(
            f"a {type(ranker).__name__} cannot be explained. Allowed: rankers that read a model's cells."
        )
    ranked = [(each, each.mention) for each in occurrences if each.mention is not None]
    explained = iter(_explain(ranker, ranked, temperature))
    return [None if each.mention is None else next(explained) for each in occurrences]


def _explain(
    ranker: PosteriorRanker, ranked: Sequence[tuple[Occurrence, Mention]], temperature: float
) -> list[Explanation]:
    explanations: list[Explanation] = []
    for batch in batches([mention for _, mention in ranked]):
        windows, sections = ranker.read(batch), ranker.section_ids(batch)
        posterior = ranker.posterior(windows, sections)
        for row, mention in enumerate(batch):
            place = ranked[len(explanations)][0]
            weights = posterior.attention[row][windows.context_mask[row]].tolist()
            of_section, *of_words = _effects(
                ranker, mention.short_form, _left_out(ranker, windows, row), int(sections[row]), temperature
            )
            words = [
                WordRead(*read, weight, effect)
                for read, weight, effect in zip(
                    _words_read(ranker, place, mention, len(weights)), weights, of_words, strict=True
                )
            ]
            explanations.append(Explanation(float(posterior.gate[row]), of_section, tuple(words)))
    return explanations


def _left_out(ranker: PosteriorRanker, windows: ReadWindows, row: int) -> ReadWindows:
    """A window as it is, twice, and then once without each of its words; the mark of a gap stays."""
    sizes, mask = ranker.model.sizes, windows.context_mask[row]
    (positions,) = np.nonzero(mask)
    masks = np.repeat(mask[None], len(positions) + 2, axis=0)
    masks[np.arange(len(positions)) + 2, positions] = (
        windows.context[row, positions] == sizes.gap_id if sizes.marks_gap else False
    )
    return ReadWindows(
        center=np.repeat(windows.center[row], len(masks)),
        center_mask=np.repeat(windows.center_mask[row], len(masks)),
        context=np.repeat(windows.context[row][None], len(masks), axis=0),
        context_mask=masks,
        unknown=windows.unknown,
    )


def _effects(
    ranker: PosteriorRanker, short_form: str, windows: ReadWindows, section: int, temperature: float
) -> list[float]:
    """What the section, and then each word, adds to the log-odds of the best sense; 0 where there is no other."""
    n_windows = len(windows.center)
    sections = np.full(n_windows, section)
    sections[1] = NULL
    scores = ranker.scorer(ranker.posterior(windows, sections))(short_form, list(range(n_windows)))
    scores = scores[:, np.isfinite(scores[0])] / temperature  # (W, K)
    if scores.shape[1] < 2:
        return [0.0] * (n_windows - 1)
    odds = _log_odds(scores, best=int(scores[0].argmax()))
    effects: list[float] = (odds[0] - odds[1:]).tolist()
    return effects


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
