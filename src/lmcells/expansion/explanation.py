"""What a model leaned on when it read a short form: its section or the words around it, and which of them.

lexicon reads a note into occurrences, the ranker ranks them, and:
    explain(ranker, occurrences)[0].section_weight          # 0 to 1; the rest is the words'
    explain(ranker, occurrences)[0].words                   # WordRead(start, end, word, weight), in the note's order
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lmcells.errors import InputError
from lmcells.expansion.context import Mention, tokens_around
from lmcells.expansion.note_reader import Occurrence
from lmcells.expansion.posterior_ranking import PosteriorRanker, batches


@dataclass(frozen=True, slots=True)
class WordRead:
    """A word at `note[start:end]`, in the vocabulary's spelling, and its share of the attention."""

    start: int
    end: int
    word: str = field(repr=False)  # of the note: patient data, never in a log or a traceback
    weight: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """How much the section weighed against the words (the gate), and how the words' weight was shared among them."""

    section_weight: float
    words: tuple[WordRead, ...]


def explain(ranker: object, occurrences: Sequence[Occurrence]) -> list[Explanation | None]:
    """Explain occurrences of one note; None where nothing was ranked, since the note says what is meant."""
    if not isinstance(ranker, PosteriorRanker):
        raise InputError(
            f"a {type(ranker).__name__} cannot be explained. Allowed: rankers that read a model's cells."
        )
    ranked = [(each, each.mention) for each in occurrences if each.mention is not None]
    explained = iter(_explain(ranker, ranked))
    return [None if each.mention is None else next(explained) for each in occurrences]


def _explain(ranker: PosteriorRanker, ranked: Sequence[tuple[Occurrence, Mention]]) -> list[Explanation]:
    explanations: list[Explanation] = []
    for batch in batches([mention for _, mention in ranked]):
        windows = ranker.read(batch)
        posterior = ranker.posterior(windows, batch)
        places = [place for place, _ in ranked[len(explanations) : len(explanations) + len(batch)]]
        explanations += [
            Explanation(float(gate), _words_read(ranker, place, mention, weights[present].tolist()))
            for place, mention, gate, weights, present in zip(
                places, batch, posterior.gate, posterior.attention, windows.context_mask, strict=True
            )
        ]
    return explanations


def _words_read(
    ranker: PosteriorRanker, place: Occurrence, mention: Mention, weights: list[float]
) -> tuple[WordRead, ...]:
    """Name the positions of a window, in the note's offsets; a marked gap is where the short form stands."""
    sizes = ranker.model.sizes
    left, right = tokens_around(
        mention, words=ranker.reads, radius=sizes.window, stop_words=ranker.model.reads_stop_words
    )
    shift = place.start - mention.start
    read = [(token.start + shift, token.end + shift, token.word) for token in left]
    if len(weights) > len(left) + len(right):
        read.append((place.start, place.end, place.short_form))
    read += [(token.start + shift, token.end + shift, token.word) for token in right]
    return tuple(WordRead(*word, weight) for word, weight in zip(read, weights, strict=True))
