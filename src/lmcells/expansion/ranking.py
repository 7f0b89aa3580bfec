"""Ranking the candidates of a short form in context, as the paper does: by divergence from the long form's prior."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import (
    Floats,
    LongFormMoments,
    SectionWeights,
    long_form_moments,
    smoothing_in_training,
    words_section_weights,
)
from lmcells.expansion.reader import Occurrence
from lmcells.expansion.sense_prototypes import (
    AS_MEASURED,
    ScoreWeights,
    SensePrototypes,
    SenseReader,
    SensesOfShortForm,
    unit_length,
)
from lmcells.expansion.windows import Mention, ReadWindows, SectionIds, WindowReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.network import NumpyPosterior

# What all rankings by a model's posteriors share: windows are read, posteriors computed, candidates scored.


_BATCH = 1024

Ids = npt.NDArray[np.int64]
Scorer = Callable[[str, list[int]], Floats]  # a short form and rows of a batch -> (rows, candidates)


class PosteriorRanker(ABC):
    """Scores the candidates of a mention by the posterior of its window; how, is left to the ranking."""

    def __init__(self, model: PretrainedModel, inventory: SenseInventory, *, reader: WindowReader) -> None:
        self.model = model
        self.inventory = inventory
        self._reader = reader
        self._sections = SectionIds(model)

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention; -inf where the model can read no word of a long form."""
        return [
            scores for batch in batches(mentions) for scores in self.window_scores(self.read(batch), batch)
        ]

    @property
    def reads(self) -> Container[str]:
        """The words that the model reads around a mention."""
        return self._reader.words

    def read(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Return what the model reads of each mention."""
        return self._reader(mentions)

    def section_ids(self, mentions: Sequence[Mention]) -> Ids:
        """Return the metadata ids under which the model knows the sections of mentions: -> (B,)."""
        return np.array([self._sections[mention.section] for mention in mentions], np.int64)

    def posterior(self, windows: ReadWindows, sections: Ids) -> NumpyPosterior:
        """Return q(z | w, m, c) of mentions whose windows are read, in sections with these ids."""
        return self.model.variational.posterior(
            windows.center,
            sections,
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
            unknown=windows.unknown,
        )

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of mentions whose windows are read already."""
        scores: list[Floats] = [np.zeros(0)] * len(mentions)
        score = self.scorer(self.posterior(windows, self.section_ids(mentions)))
        for short_form, rows in _rows_by_short_form(mentions).items():
            for row, of_senses in zip(rows, score(short_form, rows), strict=True):
                scores[row] = of_senses
        return scores

    @abstractmethod
    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        """Return what scores the candidates of a short form by the posteriors of a batch."""


def batches(mentions: Sequence[Mention]) -> Iterator[Sequence[Mention]]:
    """Yield so many mentions at a time as are read and ranked together."""
    for start in range(0, len(mentions), _BATCH):
        yield mentions[start : start + _BATCH]


def _rows_by_short_form(mentions: Sequence[Mention]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = defaultdict(list)
    for row, mention in enumerate(mentions):
        rows[mention.short_form].append(row)
    return rows


# Ranking the candidates of a short form in context, as the paper does: by divergence from the long form's prior.


class CellRanker(PosteriorRanker):
    """Ranks by -KL(q(z | short form, section, context) || long form); LMC, BSG and MBSGE alike.

    ranker = CellRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: SenseInventory,
        *,
        section_weights: SectionWeights | None = None,
    ) -> None:
        """Without weights a long form's sections are the mean of its words', smoothed as in training."""
        reader = WindowReader(model.word_ids, radius=model.sizes.window, stop_words=model.reads_stop_words)
        super().__init__(model, inventory, reader=reader)
        self._section_weights = section_weights or words_section_weights(
            model, add=smoothing_in_training(model)
        )
        self._moments: dict[str, LongFormMoments] = {}

    def moments(self, short_form: str) -> LongFormMoments:
        """Return what the prior says of a short form's candidates; computed once."""
        if short_form not in self._moments:
            senses = self.inventory.senses(short_form)
            self._moments[short_form] = long_form_moments(
                senses, self.model, section_weights=self._section_weights
            )
        return self._moments[short_form]

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        mean, log_variance = posterior.mean.astype(np.float64), posterior.log_variance.astype(np.float64)
        return lambda short_form, rows: -self.moments(short_form).divergences(mean[rows], log_variance[rows])


# Ranking by the gap that a short form leaves: which long form would fit where it stands?
#
# The short form is taken out of the text, and the posterior of the gap is a direction among the cells. What would fit is
# known in two ways: by the masked_spans that a long form left in the training text, and by its words (see `sense_directions`).


class MaskedSpanRanker(PosteriorRanker):
    """Ranks with the phrase network and the phrase store of a model that has them.

    ranker = MaskedSpanRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better
    """

    def __init__(
        self, model: PretrainedModel, inventory: SenseInventory, *, weights: ScoreWeights = AS_MEASURED
    ) -> None:
        if model.phrase_network is None or model.phrase_store is None:
            raise ModelError(
                f"{model.folder} has no phrase network and store, which ranking by masked_spans needs. "
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
        self._weights = weights
        self._senses: dict[str, SensesOfShortForm] = {}

    def prototypes(self, short_form: str) -> Sequence[SensePrototypes]:
        """Return what is known of a short form's candidates."""
        return self._of_short_form(short_form).senses

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        self._look_up(dict.fromkeys(mention.short_form for mention in mentions))
        return super().window_scores(windows, mentions)

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        masked_spans = unit_length(posterior.mean - self._center)
        return lambda short_form, rows: self._of_short_form(short_form).scores(masked_spans[rows])

    def _of_short_form(self, short_form: str) -> SensesOfShortForm:
        if short_form not in self._senses:
            self._look_up([short_form])
        return self._senses[short_form]

    def _look_up(self, short_forms: Iterable[str]) -> None:
        """Look up the candidates of short forms that are new, all together."""
        new = [short_form for short_form in short_forms if short_form not in self._senses]
        candidates = [self.inventory.senses(short_form) for short_form in new]
        read = iter(self._read_senses([sense for senses in candidates for sense in senses]))
        for short_form, senses in zip(new, candidates, strict=True):
            self._senses[short_form] = SensesOfShortForm(list(islice(read, len(senses))), self._weights)


# The rankings there are, and which one a model is best at.


Ranking = Literal["auto", "masked-span", "divergence"]


class Ranker(Protocol):
    """Scores the candidates of mentions: one array a mention, in the inventory's order, higher is better."""

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention; -inf for a long form that cannot be known."""
        ...


def ranks_by_masked_span(model: PretrainedModel, ranking: Ranking = "auto") -> bool:
    """Whether a model is to rank by masked_spans: what `auto` means for a model that has a phrase store."""
    return ranking == "masked-span" or (ranking == "auto" and model.phrase_store is not None)


def best_ranker(model: PretrainedModel, inventory: SenseInventory) -> Ranker:
    """Rank by the gap that a short form leaves where the model can, else by divergence, as the paper does."""
    return MaskedSpanRanker(model, inventory) if ranks_by_masked_span(model) else CellRanker(model, inventory)


# Mentions of one short form in one note share what they know: it nearly always means the same there.
#
# With s_i the scores of a mention's candidates and s_j those of the other mentions of the same short form in the note:
#
#     s_i + share mean_j max(s_j - max s_j, -most)
#
# So what the others like best gains nothing and the rest loses, and a mention that stands alone is left as it is. How
# well a sense fits at all is not to be read from these: only which one does.


SHARE = 0.35  # of what the others say: measured by benchmarks/mentions_together.py
MOST = 8.0  # that another mention can say against a candidate


def share_within_notes(notes: Iterable[Sequence[Occurrence]], scores: Sequence[Floats]) -> list[Floats]:
    """Adjust the scores of the mentions of each note; there is one array for each place that has a mention."""
    adjusted = list(scores)
    at = 0
    for note in notes:
        rows_of: dict[str, list[int]] = {}
        for place in note:
            if place.mention is not None:
                rows_of.setdefault(place.short_form, []).append(at)
                at += 1
        for rows in rows_of.values():
            if len(rows) > 1 and len(scores[rows[0]]) > 1:
                for row, shared in zip(rows, share([scores[row] for row in rows]), strict=True):
                    adjusted[row] = shared
    return adjusted


def share(scores: Sequence[Floats], *, weight: float = SHARE) -> Floats:
    """Adjust the scores of mentions of one short form that stand in one note: (n, K) -> (n, K)."""
    given = np.asarray(scores, np.float64)
    best = given.max(axis=1, keepdims=True)
    is_known = np.isfinite(best)  # (n, 1) whether the mention says anything
    says = np.where(is_known, np.maximum(given - np.where(is_known, best, 0.0), -MOST), 0.0)
    others = (says.sum(axis=0) - says) / max(1, len(given) - 1)
    adjusted: Floats = given + weight * others
    return adjusted
