"""Ranking the candidates of short forms in context.

Each window is encoded as the posterior q(z | w, m, c), and the candidates are scored by how well they fit the masked
span in place of the short form (`MaskedSpanRanker`), or by divergence from the long form's prior as in the paper
(`CellRanker`). `Expander` and `evaluate` use the same rankers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any, Literal, Protocol, Self

import numpy as np

from lmcells.errors import ModelError
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_form_moments import (
    LongFormMoments,
    LongFormOccurrences,
    SectionWeights,
    counted_section_weights,
    long_form_moments,
    words_section_weights,
)
from lmcells.expansion.long_forms import Floats, Ids, SenseReader, SensesOfShortForm, unit_length
from lmcells.expansion.windows import Mask, Mention, WindowReader, missing_words, section_id_finder
from lmcells.pretrained import PretrainedModel, ReadWindows
from lmcells.pretrained.network import NumpyPosterior

Ranking = Literal["auto", "masked-span", "divergence"]
Rows = list[int] | slice
Scorer = Callable[[Any, Rows], Floats]
"""What is known about candidates, and rows of a batch -> their scores (rows, candidates)."""

_BATCH = 1024  # mentions ranked together

# In short windows, scores of true senses are lower and less certain. For a window of n words out of N, fitted to
# training text by benchmarks/short_windows.py:
_FITS = 7.4  # the score above which a sense is more likely to fit than not, for n = N
_FITS_BY_LENGTH = 1.2  # how much lower that is, times log(N / n)
_SCALE_BY_LENGTH = 0.2  # how much less a difference of scores counts, times log(N / n)
_CACHE_SIZE = 20_000  # sets of candidates


class Ranker(Protocol):
    """Scores the candidates of mentions."""

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Return, for each mention, a score per candidate in the inventory's order; higher is better.

        The score of an unknown long form is -inf.
        """
        ...


class PosteriorRanker(ABC):
    """Scores the candidates of a mention by the posterior of its window."""

    def __init__(self, model: PretrainedModel, inventory: SenseInventory, *, read: WindowReader) -> None:
        self.model = model
        self.inventory = inventory
        self.read = read
        self._network = model.variational
        self._section_id = section_id_finder(model)
        self._base = inventory
        # What is known about candidates: those of the base inventory, shared by `over`, and this ranker's own.
        self._shared_cache: dict[Sequence[Sense], Any] = {}
        self._own_cache: dict[Sequence[Sense], Any] = {}

    def over(self, inventory: SenseInventory) -> Self:
        """Return a ranker for another inventory; both share what is known about candidates that they share."""
        ranker = copy(self)
        ranker.inventory, ranker._own_cache = inventory, {}
        return ranker

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Return, for each mention, a score per candidate in the inventory's order; higher is better."""
        return [
            scores for batch in batches(mentions) for scores in self.window_scores(self.read(batch), batch)
        ]

    def section_ids(self, mentions: Sequence[Mention]) -> Ids:
        """Return the model's metadata ids of the mentions' sections: (B,)."""
        return np.array([self._section_id(mention.section) for mention in mentions], np.int64)

    def posterior(self, windows: ReadWindows, sections: Ids) -> NumpyPosterior:
        """Return q(z | w, m, c) of windows in the given sections."""
        return self._network.posterior(windows, sections)

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of mentions by their windows."""
        rows_of: dict[str, list[int]] = {}
        for row, mention in enumerate(mentions):
            rows_of.setdefault(mention.short_form, []).append(row)
        known = self.known(rows_of)
        score = self.scorer(self.posterior(windows, self.section_ids(mentions)), windows.context_mask)
        scores: list[Floats] = [np.zeros(0)] * len(mentions)
        for short_form, rows in rows_of.items():
            for row, of_senses in zip(rows, score(known[short_form], rows), strict=True):
                scores[row] = of_senses
        return scores

    def known(self, short_forms: Iterable[str]) -> dict[str, Any]:
        """Return what is known about the candidates of short forms; fastest for many at once."""
        candidates = {each: self.inventory.senses(each) for each in short_forms}
        if len(self._shared_cache) > _CACHE_SIZE:
            self._shared_cache.clear()
        known = {each: self._cache_of(each).get(senses) for each, senses in candidates.items()}
        new = [each for each in known if known[each] is None]
        for each, found in zip(new, self.read_candidates([candidates[each] for each in new]), strict=True):
            known[each] = self._cache_of(each)[candidates[each]] = found
        return known

    def _cache_of(self, short_form: str) -> dict[Sequence[Sense], Any]:
        is_shared = self.inventory is self._base or (
            self._base.by_short_form.get(short_form) == self.inventory.by_short_form[short_form]
        )
        return self._shared_cache if is_shared else self._own_cache

    def posterior_scores(self, short_form: str, posterior: NumpyPosterior, read: Mask) -> Floats:
        """Score the candidates of one short form by the posteriors of windows with these context masks: (B, K)."""
        known = self.known([short_form])[short_form]
        return self.scorer(posterior, read)(known, slice(None))

    @abstractmethod
    def read_candidates(self, candidates: Sequence[Sequence[Sense]]) -> Iterable[Any]:
        """Return what is known about the candidates of each short form; fastest for many at once."""

    @abstractmethod
    def scorer(self, posterior: NumpyPosterior, read: Mask) -> Scorer:
        """Return a function that scores candidates by the posteriors of a batch; `read` are its context masks."""


def batches(mentions: Sequence[Mention]) -> Iterator[Sequence[Mention]]:
    """Yield mentions in batches."""
    for start in range(0, len(mentions), _BATCH):
        yield mentions[start : start + _BATCH]


class CellRanker(PosteriorRanker):
    """Ranks by -KL(q(z | short form, section, context) || long form), for LMC, BSG and MBSGE.

    ranker = CellRanker(model, inventory)
    ranker.scores(mentions)   # for each mention, a score per candidate
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: SenseInventory,
        *,
        section_weights: SectionWeights | None = None,
    ) -> None:
        """Without weights, beta(section | long form) is the mean over its words."""
        read = WindowReader(model.word_ids, radius=model.sizes.window, stop_words=model.reads_stop_words)
        super().__init__(model, inventory, read=read)
        self._section_weights = section_weights or words_section_weights(model)

    def read_candidates(self, candidates: Sequence[Sequence[Sense]]) -> list[LongFormMoments]:
        return [
            long_form_moments(senses, self.model, section_weights=self._section_weights)
            for senses in candidates
        ]

    def scorer(self, posterior: NumpyPosterior, read: Mask) -> Scorer:  # noqa: ARG002
        mean, log_variance = posterior.mean.astype(np.float64), posterior.log_variance.astype(np.float64)

        def score(known: LongFormMoments, rows: Rows) -> Floats:
            return -known.divergences(mean[rows], log_variance[rows])

        return score


class MaskedSpanRanker(PosteriorRanker):
    """Ranks by how well each long form fits the masked span in place of the short form.

    Needs a model with a phrase network and a phrase store; `lmcells.expansion.long_forms` has the formula.

    ranker = MaskedSpanRanker(model, inventory)
    ranker.scores(mentions)   # for each mention, a score per candidate
    """

    def __init__(self, model: PretrainedModel, inventory: SenseInventory) -> None:
        if model.phrase_network is None or model.phrase_store is None:
            raise ModelError(
                f"{model.folder} has no phrase network and store, which ranking by masked spans needs. "
                "Train with the preset default, or rank by divergence."
            )
        sizes = model.sizes
        read = WindowReader(
            model.word_ids,
            radius=sizes.window,
            hides_center=True,
            mask_id=sizes.mask_id if sizes.masks_span else None,
            subwords=model.subwords,
            stop_words=model.reads_stop_words,
        )
        super().__init__(model, inventory, read=read)
        self._center = model.phrase_store.masked_span_center
        self._read_senses = SenseReader(model, model.phrase_network, model.phrase_store)

    def read_candidates(self, candidates: Sequence[Sequence[Sense]]) -> list[SensesOfShortForm]:
        read = iter(self._read_senses([sense for senses in candidates for sense in senses]))
        return [SensesOfShortForm(list(islice(read, len(senses)))) for senses in candidates]

    def scorer(self, posterior: NumpyPosterior, read: Mask) -> Scorer:
        masked_spans = unit_length(posterior.mean - self._center)
        missing = missing_words(read)

        def score(known: SensesOfShortForm, rows: Rows) -> Floats:
            return comparable(known.scores(masked_spans[rows]), missing[rows])

        return score


def comparable(scores: Floats, missing: Floats) -> Floats:
    """Put scores (B, K) of windows of any length on one scale; `missing` is log(N / n), see `missing_words`: (B, 1)."""
    above = scores - _FITS + _FITS_BY_LENGTH * missing
    return _FITS + above / (1 + _SCALE_BY_LENGTH * missing)


def ranks_by_masked_span(model: PretrainedModel, ranking: Ranking = "auto") -> bool:
    """Whether a model ranks by masked spans; `auto`: if it has a phrase store."""
    return ranking == "masked-span" or (ranking == "auto" and model.phrase_store is not None)


def best_ranker(
    model: PretrainedModel,
    inventory: SenseInventory,
    *,
    ranking: Ranking = "auto",
    occurrences: LongFormOccurrences | None = None,
) -> PosteriorRanker:
    """Return the ranker of a model: by masked spans if it supports them, else by divergence, as in the paper.

    By divergence, p(section | long form) of an LMC comes from the `occurrences` in a corpus, if they are given.
    """
    if ranks_by_masked_span(model, ranking):
        return MaskedSpanRanker(model, inventory)
    weights = None
    if occurrences is not None and model.sizes.kind == "lmc":
        weights = counted_section_weights(model, occurrences)
    return CellRanker(model, inventory, section_weights=weights)


# Mentions of a short form in a note share evidence, since nearly all mean the same. With s_i the scores of a mention's
# candidates and s_j those of the other mentions:
#
#     s_i + w mean_j max(s_j - max s_j, -b)
#
# So the others' best candidate gains nothing and the rest lose; a single mention keeps its scores. Shared scores decide
# which sense fits best, not whether any does.

WEIGHT_OF_OTHERS = 0.35  # w, tuned on dev notes
MOST_AGAINST = 8.0  # b, the most that another mention may say against a candidate


def share_within_notes(notes: Iterable[Sequence[Mention]], scores: Sequence[Floats]) -> list[Floats]:
    """Adjust the scores of the mentions of each note; `scores` has one array for each mention."""
    adjusted = list(scores)
    first = 0
    for mentions in notes:
        rows_of: dict[str, list[int]] = {}
        for row, mention in enumerate(mentions, start=first):
            rows_of.setdefault(mention.short_form, []).append(row)
        first += len(mentions)
        for rows in rows_of.values():
            if len(rows) > 1 and len(scores[rows[0]]) > 1:
                for row, shared in zip(rows, share([scores[row] for row in rows]), strict=True):
                    adjusted[row] = shared
    return adjusted


def share(scores: Sequence[Floats]) -> Floats:
    """Adjust the scores of mentions of one short form in one note: (n, K) -> (n, K)."""
    given = np.asarray(scores, np.float64)
    best = given.max(axis=1, keepdims=True)
    is_known = np.isfinite(best)  # (n, 1) whether the mention has any score
    against = np.where(is_known, np.maximum(given - np.where(is_known, best, 0.0), -MOST_AGAINST), 0.0)
    of_others = (against.sum(axis=0) - against) / max(1, len(given) - 1)
    adjusted: Floats = given + WEIGHT_OF_OTHERS * of_others
    return adjusted
