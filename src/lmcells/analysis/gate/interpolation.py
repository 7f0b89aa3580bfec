"""What a short form means as the weight of its section is moved by hand, from its words (0) to its section (1).

The gate is all that is moved: a model that reads what stands next to a gap beside it reads that at every weight.

path = interpolate(section_ranker(model, inventory), "MG", section="MEDICATIONS")
path.weights                                # 0, 0.05, ... 1: the section's weight
path.long_forms[0].probabilities            # of one long form, at each of them
interpolate(ranker, "MG", section="IMAGING", text="seen on MG of the left breast", calibration=calibration)
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lmcells.analysis.gate.window import cells, n_words_read, read_window
from lmcells.analysis.names import section_id
from lmcells.errors import ConfigError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.expansion.section_ids import NULL
from lmcells.pretrained.numpy_network import NumpyPosterior

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
