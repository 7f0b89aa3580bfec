"""Ranking the candidates of short forms in context by the cells of a model.

Windows are read, the posterior q(z | w, m, c) of each is computed, and the candidates are scored: by the masked span
that the short form leaves (`MaskedSpanRanker`), or by divergence from the long form's prior as in the paper
(`CellRanker`). `Expander` and `evaluate` rank with the same rankers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol

import numpy as np

from lmcells.errors import ModelError
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import (
    Floats,
    Ids,
    LongFormMoments,
    ScoreWeights,
    SectionWeights,
    SensePrototypes,
    SenseReader,
    SensesOfShortForm,
    long_form_moments,
    smoothing_in_training,
    unit_length,
    words_section_weights,
)
from lmcells.expansion.reader import Occurrence
from lmcells.expansion.windows import Mask, Mention, ReadWindows, SectionIds, WindowReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.network import NumpyPosterior

Ranking = Literal["auto", "masked-span", "divergence"]
Scorer = Callable[[str, list[int]], Floats]  # a short form and rows of a batch -> (rows, candidates)

_BATCH = 1024  # mentions that are read and ranked together

# Fewer words say less: scores of true senses are lower and less certain in short windows. As fitted to training text
# by benchmarks/short_windows.py, with a window of n words of N:
_FITS = 7.4  # the score above which a sense rather fits than not, n = N
_FITS_BY_LENGTH = 1.45  # how much lower that is, times log(N / n)
_SCALE_BY_LENGTH = 0.2  # how much less a difference of scores says, times log(N / n)
_MOST_KNOWN = 20_000  # short forms whose candidates are remembered


class Ranker(Protocol):
    """Scores the candidates of mentions."""

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Return for each mention one score a candidate, in the inventory's order; higher is better.

        The score of a long form of which nothing is known is -inf.
        """
        ...


class PosteriorRanker(ABC):
    """Scores the candidates of a mention by the posterior of its window."""

    def __init__(self, model: PretrainedModel, inventory: SenseInventory, *, reader: WindowReader) -> None:
        self.model = model
        self.inventory = inventory
        self.reader = reader
        self._network = model.variational
        self._sections = SectionIds(model)

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Return for each mention one score a candidate, in the inventory's order; higher is better."""
        return [
            scores for batch in batches(mentions) for scores in self.window_scores(self.read(batch), batch)
        ]

    def read(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Return what the model reads of each mention."""
        return self.reader(mentions)

    def section_ids(self, mentions: Sequence[Mention]) -> Ids:
        """Return the metadata ids under which the model knows the sections of mentions: -> (B,)."""
        return np.array([self._sections[mention.section] for mention in mentions], np.int64)

    def posterior(self, windows: ReadWindows, sections: Ids) -> NumpyPosterior:
        """Return q(z | w, m, c) of windows in sections with these ids."""
        return self._network.posterior(
            windows.center,
            sections,
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
            unknown=windows.unknown,
        )

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of mentions whose windows have been read."""
        rows_of: dict[str, list[int]] = {}
        for row, mention in enumerate(mentions):
            rows_of.setdefault(mention.short_form, []).append(row)
        self.look_up(rows_of)
        scores: list[Floats] = [np.zeros(0)] * len(mentions)
        score = self.scorer(self.posterior(windows, self.section_ids(mentions)))
        for short_form, rows in rows_of.items():
            read = windows.context_mask[rows]
            for row, of_senses in zip(rows, self.comparable(score(short_form, rows), read), strict=True):
                scores[row] = of_senses
        return scores

    def comparable(self, scores: Floats, read: Mask) -> Floats:  # noqa: ARG002
        """Return scores (B, K) on a scale that does not depend on how many words were read (B, T)."""
        return scores

    @abstractmethod
    def look_up(self, short_forms: Iterable[str]) -> None:
        """Compute what is known of the candidates of short forms, unless that was done before."""

    @abstractmethod
    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        """Return a function that scores the candidates of a short form by the posteriors of a batch."""


def batches(mentions: Sequence[Mention]) -> Iterator[Sequence[Mention]]:
    """Yield mentions that are read and ranked together."""
    for start in range(0, len(mentions), _BATCH):
        yield mentions[start : start + _BATCH]


class CellRanker(PosteriorRanker):
    """Ranks by -KL(q(z | short form, section, context) || long form), for LMC, BSG and MBSGE.

    ranker = CellRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a candidate
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: SenseInventory,
        *,
        section_weights: SectionWeights | None = None,
    ) -> None:
        """Without weights the sections of a long form are the mean of its words', smoothed as in training."""
        reader = WindowReader(model.word_ids, radius=model.sizes.window, stop_words=model.reads_stop_words)
        super().__init__(model, inventory, reader=reader)
        self._section_weights = section_weights or words_section_weights(
            model, add=smoothing_in_training(model)
        )
        self._moments: dict[str, LongFormMoments] = {}

    def look_up(self, short_forms: Iterable[str]) -> None:
        for short_form in short_forms:
            if short_form not in self._moments:
                senses = self.inventory.senses(short_form)
                self._moments[short_form] = long_form_moments(
                    senses, self.model, section_weights=self._section_weights
                )

    def moments(self, short_form: str) -> LongFormMoments:
        """Return what the prior says of a short form's candidates."""
        self.look_up([short_form])
        return self._moments[short_form]

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        mean, log_variance = posterior.mean.astype(np.float64), posterior.log_variance.astype(np.float64)
        return lambda short_form, rows: -self.moments(short_form).divergences(mean[rows], log_variance[rows])


class MaskedSpanRanker(PosteriorRanker):
    """Ranks by the masked span that a short form leaves: which long form would fit there?

    Needs a model with a phrase network and a phrase store; `lmcells.expansion.long_forms` has the formula.

    ranker = MaskedSpanRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a candidate
    """

    def __init__(
        self, model: PretrainedModel, inventory: SenseInventory, *, weights: ScoreWeights | None = None
    ) -> None:
        if model.phrase_network is None or model.phrase_store is None:
            raise ModelError(
                f"{model.folder} has no phrase network and store, which ranking by masked spans needs. "
                "Train with the preset default, or rank by divergence."
            )
        sizes = model.sizes
        reader = WindowReader(
            model.word_ids,
            radius=sizes.window,
            hides_center=True,
            mask_id=sizes.mask_id if sizes.masks_span else None,
            subwords=model.subwords,
            stop_words=model.reads_stop_words,
        )
        super().__init__(model, inventory, reader=reader)
        self._center = model.phrase_store.masked_span_center
        self._read_senses = SenseReader(model, model.phrase_network, model.phrase_store)
        self._weights = weights or ScoreWeights()
        self._senses: dict[str, SensesOfShortForm] = {}

    def look_up(self, short_forms: Iterable[str]) -> None:
        new = [short_form for short_form in short_forms if short_form not in self._senses]
        if not new:
            return
        if len(self._senses) > _MOST_KNOWN:
            self._senses.clear()
            new = list(short_forms)
        candidates = [self.inventory.senses(short_form) for short_form in new]
        read = iter(self._read_senses([sense for senses in candidates for sense in senses]))
        for short_form, senses in zip(new, candidates, strict=True):
            self._senses[short_form] = SensesOfShortForm(list(islice(read, len(senses))), self._weights)

    def prototypes(self, short_form: str) -> Sequence[SensePrototypes]:
        """Return what is known of a short form's candidates."""
        return self._known(short_form).senses

    def _known(self, short_form: str) -> SensesOfShortForm:
        while (known := self._senses.get(short_form)) is None:  # another thread may forget it again
            self.look_up([short_form])
        return known

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        masked_spans = unit_length(posterior.mean - self._center)

        def score(short_form: str, rows: list[int]) -> Floats:
            return self._known(short_form).scores(masked_spans[rows])

        return score

    def comparable(self, scores: Floats, read: Mask) -> Floats:
        missing = np.log(read.shape[1] / read.sum(axis=1, keepdims=True).clip(1))  # (B, 1)
        above = scores - _FITS + _FITS_BY_LENGTH * missing
        comparable: Floats = _FITS + above / (1 + _SCALE_BY_LENGTH * missing)
        return comparable


def ranks_by_masked_span(model: PretrainedModel, ranking: Ranking = "auto") -> bool:
    """Whether a model ranks by masked spans; `auto` does if it has a phrase store."""
    return ranking == "masked-span" or (ranking == "auto" and model.phrase_store is not None)


def best_ranker(
    model: PretrainedModel, inventory: SenseInventory, *, ranking: Ranking = "auto"
) -> PosteriorRanker:
    """Return the ranker of a model: by masked spans where it can, else by divergence, as in the paper."""
    by_masked_span = ranks_by_masked_span(model, ranking)
    return MaskedSpanRanker(model, inventory) if by_masked_span else CellRanker(model, inventory)


# Mentions of one short form in one note share evidence: it nearly always means the same there. With s_i the scores of a
# mention's candidates and s_j those of the other mentions of the short form in the note:
#
#     s_i + share mean_j max(s_j - max s_j, -most)
#
# So the others' favourite gains nothing and the rest loses; a mention that stands alone keeps its scores. Shared scores
# say which sense fits best, not whether any does.

SHARE = 0.35  # of what the others say, tuned on dev notes
MOST = 8.0  # that another mention can say against a candidate


def share_within_notes(notes: Iterable[Sequence[Occurrence]], scores: Sequence[Floats]) -> list[Floats]:
    """Adjust the scores of the mentions of each note; `scores` has one array for each occurrence with a mention."""
    adjusted = list(scores)
    at = 0
    for note in notes:
        rows_of: dict[str, list[int]] = {}
        for occurrence in note:
            if occurrence.mention is not None and occurrence.source != "letters":
                rows_of.setdefault(occurrence.short_form, []).append(at)
                at += 1
        for rows in rows_of.values():
            if len(rows) > 1 and len(scores[rows[0]]) > 1:
                for row, shared in zip(rows, share([scores[row] for row in rows]), strict=True):
                    adjusted[row] = shared
    return adjusted


def share(scores: Sequence[Floats], *, weight: float = SHARE) -> Floats:
    """Adjust the scores of mentions of one short form in one note: (n, K) -> (n, K)."""
    given = np.asarray(scores, np.float64)
    best = given.max(axis=1, keepdims=True)
    is_known = np.isfinite(best)  # (n, 1) whether the mention says anything
    says = np.where(is_known, np.maximum(given - np.where(is_known, best, 0.0), -MOST), 0.0)
    others = (says.sum(axis=0) - says) / max(1, len(given) - 1)
    adjusted: Floats = given + weight * others
    return adjusted
