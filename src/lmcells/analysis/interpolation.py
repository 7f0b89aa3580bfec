"""What a short form means as the weight of its section is set by hand, from its words (0) to its section (1).

Only the gate is set: a model that also reads the words next to a masked span reads them at every weight.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row, rows_of
from lmcells.analysis.names import require_sections, section_id
from lmcells.errors import ConfigError, InputError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_form_moments import LongFormMoments, long_form_moments
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import CellRanker, PosteriorRanker, Ranking, best_ranker, ranks_by_masked_span
from lmcells.expansion.windows import NULL, Mention
from lmcells.pretrained import PretrainedModel, ReadWindows
from lmcells.pretrained.layers import Ids
from lmcells.pretrained.network import Gate, NumpyPosterior
from lmcells.pretrained.subwords import TABLE

STEPS = 21
_MOST_STEPS = 1001
_NO_WORD = "&"  # a short form without a token, so not a word of any model


class NullMetadataRanker(CellRanker):
    """Ranks long forms by -KL(q || p(z | long form, null)), as in the paper's interpolation figure."""

    def read_candidates(self, candidates: Sequence[Sequence[Sense]]) -> list[LongFormMoments]:
        """Return the moments of the candidates, each a single Gaussian."""
        return [long_form_moments(senses, self.model, section_weights=None) for senses in candidates]


def section_ranker(
    model: PretrainedModel,
    inventory: SenseInventory,
    *,
    ranking: Ranking = "auto",
    null_metadata: bool = False,
) -> PosteriorRanker:
    """The ranker of `lmcells evaluate`; with `null_metadata`, long forms have no section, as in the paper's figure."""
    require_sections(model)
    if not null_metadata:
        return best_ranker(model, inventory, ranking=ranking)
    if ranks_by_masked_span(model, ranking):
        why = "null metadata needs the ranking by divergence; this model ranks by masked span."
        raise InputError(f"{why} Add: --ranking divergence")
    return NullMetadataRanker(model, inventory)


def read_window(ranker: PosteriorRanker, short_form: str, *, text: str | None = None) -> ReadWindows:
    """What the model reads around a short form: its first occurrence in a text, or the null context, without words.

    There, a ranking by masked span has the mask; one that reads the short form itself has a position without a word (a
    zero vector) beside it, since the center enters q only beside a context word.
    """
    if text is not None:
        return ranker.read([_find(short_form, text)])
    window, model = ranker.read([Mention("", 0, 0, short_form, None)]), ranker.model
    if window.context_mask.any() or not window.center_mask.any():
        return window
    context, mask = window.context.copy(), window.context_mask.copy()
    context[:, 0], mask[:, 0] = len(model.arrays[TABLE]), True
    zero = np.zeros((1, model.sizes.embedding_dim), np.float32)
    return replace(window, context=context, context_mask=mask, unknown=zero)


def empty_window(ranker: PosteriorRanker) -> ReadWindows:
    """The null context without a short form: all that is left is the section."""
    return ranker.read([Mention("", 0, 0, _NO_WORD, None)])


def n_words_read(model: PretrainedModel, windows: ReadWindows) -> npt.NDArray[np.int64]:
    """How many words are in each window, not counting the mask: -> (B,)."""
    n_masks = windows.context.shape[1] - 2 * model.sizes.window
    n_words: npt.NDArray[np.int64] = windows.context_mask.sum(axis=1) - n_masks
    return n_words


def cells(
    model: PretrainedModel, window: ReadWindows, metadata: Ids, *, gate: Gate | None = None
) -> NumpyPosterior:
    """q(z | w, m, c) of one window under each of several metadata; an id below 0 is null metadata."""
    return model.variational.posterior(window.rows(np.zeros(len(metadata), np.intp)), metadata, gate=gate)


def _find(short_form: str, text: str) -> Mention:
    """Find the short form as written, else in another case; any word counts, since the user names it."""
    alone = rf"(?<!\w){re.escape(short_form)}(?!\w)"
    found = re.search(alone, text) or re.search(alone, text, re.IGNORECASE)
    if found is None:
        raise InputError(f"the text does not contain {short_form!r} as a word. Give a text that does.")
    return Mention(text, found.start(), found.end(), short_form, None)


def interpolate(
    ranker: PosteriorRanker,
    short_form: str,
    *,
    section: str,
    text: str | None = None,
    steps: int = STEPS,
    calibration: Calibration | None = None,
) -> Row:
    """Move the gate for a short form under a section, with or without a text around it (see `read_window`).

    `weights` are those of the section, from 0 (the words around the short form) to 1; `learnt_weight` is what the
    model's own gate gives it. `long_forms` come by their largest probability on the path, each with `probabilities` at
    every weight, `learnt` at the learnt one, and `without_section`.
    """
    if not 2 <= steps <= _MOST_STEPS:
        raise ConfigError(f"steps: found {steps}, allowed: 2 to {_MOST_STEPS:,}.")
    model, calibration = ranker.model, calibration or Calibration()
    metadata = section_id(model, section)
    short_form = spelt_as_in(ranker.inventory, short_form)
    senses = ranker.inventory.senses(short_form)
    window = read_window(ranker, short_form, text=text)
    weights = np.linspace(0, 1, steps)
    by_hand = cells(model, window, np.full(steps, metadata), gate=weights)
    by_itself = cells(model, window, np.array([metadata, NULL]))
    along = _probabilities(ranker, short_form, window, by_hand, calibration)  # (steps, K)
    learnt, without_section = _probabilities(ranker, short_form, window, by_itself, calibration)  # (K,) each
    names = [sense.long_form for sense in senses]
    paths = rows_of(long_form=names, probabilities=along.T, learnt=learnt, without_section=without_section)
    return Row(
        short_form=short_form,
        section=model.sections[metadata],
        n_words=0 if text is None else int(n_words_read(model, window)[0]),
        weights=tuple(weights.tolist()),
        learnt_weight=float(by_itself.gate[0]),
        long_forms=tuple(sorted(paths, key=lambda path: -max(path.probabilities))),
    )


def spelt_as_in(inventory: SenseInventory, short_form: str) -> str:
    """A short form in the inventory's spelling, where only its case differs."""
    upper = short_form.upper()
    return upper if short_form not in inventory and upper in inventory else short_form


def _probabilities(
    ranker: PosteriorRanker,
    short_form: str,
    window: ReadWindows,
    posterior: NumpyPosterior,
    calibration: Calibration,
) -> Floats:
    """The probability of each long form, in the inventory's order, for each cell: -> (B, K)."""
    scores = ranker.posterior_scores(short_form, posterior, window.context_mask)
    return np.stack([calibration.probabilities(of_senses) for of_senses in scores])
