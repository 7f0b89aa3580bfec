"""What a short form means as the weight of its section is moved by hand, from its words (0) to its section (1).

The gate is all that is moved: a model that reads what stands next to a gap beside it reads that at every weight.

path = interpolate(section_ranker(model, inventory), "MG", section="MEDICATIONS")
path.weights                                # 0, 0.05, ... 1: the section's weight
path.long_forms[0].probabilities            # of one long form, at each of them
interpolate(ranker, "MG", section="IMAGING", text="seen on MG of the left breast", calibration=calibration)
"""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import require_sections, section_id
from lmcells.errors import ConfigError, InputError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats, LongFormMoments, long_form_moments
from lmcells.expansion.ranking import (
    CellRanker,
    MaskedSpanRanker,
    PosteriorRanker,
    Ranking,
    ranks_by_masked_span,
)
from lmcells.expansion.windows import NULL, Mention, ReadWindows
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.layers import Ids
from lmcells.pretrained.network import Gate, NumpyPosterior
from lmcells.pretrained.subwords import TABLE

# Long forms under no section: -KL(q || p(z | long form, null)), the ranking of the paper's interpolation figure.


class NullMetadataRanker(CellRanker):
    """Ranks by the divergence from one Gaussian a long form, which no section moves."""

    def moments(self, short_form: str) -> LongFormMoments:
        """Return the moments of the candidates: those of a mixture of one; computed once."""
        if short_form not in self._moments:
            senses = self.inventory.senses(short_form)
            self._moments[short_form] = long_form_moments(senses, self.model, section_weights=None)
        return self._moments[short_form]


# The ranking that a model is looked into with, and what turns its scores into probabilities.


def section_ranker(
    model: PretrainedModel,
    inventory: SenseInventory,
    *,
    ranking: Ranking = "auto",
    null_metadata: bool = False,
) -> PosteriorRanker:
    """The ranker of a model that reads sections, as `lmcells evaluate` has it.

    With `null_metadata` a long form is seen under no section, as in the paper's figure, not under all of its own.
    """
    require_sections(model)
    by_masked_span = ranks_by_masked_span(model, ranking)
    if null_metadata:
        if by_masked_span:
            raise InputError(
                "long forms under null metadata are of the ranking by divergence; this model ranks by gaps. "
                "Add: --ranking divergence"
            )
        return NullMetadataRanker(model, inventory)
    return MaskedSpanRanker(model, inventory) if by_masked_span else CellRanker(model, inventory)


def calibration_of(model: PretrainedModel, *, ranking: Ranking = "auto") -> Calibration:
    """The model's own calibration for its own ranking; plain softmax for another, whose scores are others."""
    is_own = ranks_by_masked_span(model, ranking) == ranks_by_masked_span(model)
    return Calibration.load(model.folder) if is_own else Calibration()


# One window, read once, under as many sections and weights of them as one likes.
#
# window = read_window(ranker, "MG")                                    # the null context
# window = read_window(ranker, "MG", text="thymectomy for MG in 2009")
# cells(ranker.model, window, np.arange(n_sections))                    # the cell under each section
# cells(ranker.model, window, np.full(21, section), gate=np.linspace(0, 1, 21))


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


# What a short form means as the weight of its section is moved by hand, from its words (0) to its section (1).
#
# The gate is all that is moved: a model that reads what stands next to a gap beside it reads that at every weight.
#
# path = interpolate(section_ranker(model, inventory), "MG", section="MEDICATIONS")
# path.weights                                # 0, 0.05, ... 1: the section's weight
# path.long_forms[0].probabilities            # of one long form, at each of them
# interpolate(ranker, "MG", section="IMAGING", text="seen on MG of the left breast", calibration=calibration)


STEPS = 21
_MOST_STEPS = 1001


@dataclass(frozen=True, slots=True)
class LongFormPath:
    """The probability of a long form at each step, at the weight that the model chose, and under no section."""

    long_form: str
    probabilities: tuple[float, ...]
    learnt: float
    without_section: float


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The way from the words around a short form (weight 0) to its section (weight 1)."""

    short_form: str
    section: str
    n_words: int  # read around the short form; 0 is the null context
    weights: tuple[float, ...]  # of the section, one a step
    learnt_weight: float  # what the gate gives the section by itself
    long_forms: tuple[LongFormPath, ...]  # by the greatest probability on the way

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, under the names of the fields."""
        return asdict(self)


def interpolate(
    ranker: PosteriorRanker,
    short_form: str,
    *,
    section: str,
    text: str | None = None,
    start: int = 0,
    steps: int = STEPS,
    calibration: Calibration | None = None,
) -> Interpolation:
    """Move the gate for a short form under a section, around it the words of a text or none (see `read_window`)."""
    if not 2 <= steps <= _MOST_STEPS:
        raise ConfigError(f"steps: found {steps}, allowed: 2 to {_MOST_STEPS:,}.")
    model, calibration = ranker.model, calibration or Calibration()
    metadata = section_id(model, section)
    short_form = spelt_as_in(ranker.inventory, short_form)
    senses = ranker.inventory.senses(short_form)
    window = read_window(ranker, short_form, text=text, start=start)
    weights = np.linspace(0, 1, steps)
    by_hand = cells(model, window, np.full(steps, metadata), gate=weights)
    by_itself = cells(model, window, np.array([metadata, NULL]))
    along = _probabilities(ranker, short_form, by_hand, calibration)  # (steps, K)
    learnt, without_section = _probabilities(ranker, short_form, by_itself, calibration)  # (K,) each
    paths = [
        LongFormPath(
            sense.long_form,
            tuple(along[:, place].tolist()),
            float(learnt[place]),
            float(without_section[place]),
        )
        for place, sense in enumerate(senses)
    ]
    return Interpolation(
        short_form=short_form,
        section=model.sections[metadata],
        n_words=0 if text is None else int(n_words_read(model, window)[0]),
        weights=tuple(weights.tolist()),
        learnt_weight=float(by_itself.gate[0]),
        long_forms=tuple(sorted(paths, key=lambda path: -max(path.probabilities))),
    )


def spelt_as_in(inventory: SenseInventory, short_form: str) -> str:
    """A short form in the inventory's spelling, where only its case is another."""
    return (
        short_form.upper() if short_form not in inventory and short_form.upper() in inventory else short_form
    )


def _probabilities(
    ranker: PosteriorRanker, short_form: str, posterior: NumpyPosterior, calibration: Calibration
) -> Floats:
    """Of each long form, in the inventory's order, by each of the cells: -> (B, K)."""
    rows = list(range(len(posterior.mean)))
    scores = ranker.scorer(posterior)(short_form, rows)
    return np.stack([calibration.probabilities(of_senses) for of_senses in scores])
