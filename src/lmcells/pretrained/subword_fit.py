"""How much unknown words may be read as known ones that are spelt alike: found out on words that are held out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.pretrained import layout
from lmcells.pretrained.known_spellings import KnownSpellings
from lmcells.pretrained.pretrained_model import PretrainedModel
from lmcells.pretrained.subwords import TABLE, SubwordSettings, average_vector, blend, neighbour_weights

_HELD_OUT = 0.05
_FEWEST, _MOST = 50, 2000  # words that are held out: fewer tell nothing, more would not change the choice
_SHARPNESSES = (2.0, 3.0, 4.0, 6.0)
_CAUTIONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def fit_subwords(
    words: Sequence[str], table: npt.NDArray[Any], counts: npt.NDArray[np.integer], *, seed: int = 0
) -> SubwordSettings | None:
    """Choose the weights that explain most of the vectors of held-out words; None where spelling explains nothing.

    `table` holds the vectors of the words in its first rows. Slips of the pen play no part: a held-out word is none.
    """
    spelt = np.array(KnownSpellings.of(words, counts).ids)
    order = np.random.default_rng(seed).permutation(spelt)
    n_held_out = min(int(len(order) * _HELD_OUT), _MOST)
    if n_held_out < _FEWEST:
        return None
    held_out, rest = order[:n_held_out], order[n_held_out:]
    known = KnownSpellings.of([words[id_] for id_ in rest.tolist()], counts[rest])
    deviations = np.asarray(table[: len(words)], np.float32) - average_vector(table, counts, rest)
    nearest, likeness = known.nearest([words[id_] for id_ in held_out.tolist()])
    nearest = rest[nearest]
    weights = np.log1p(counts[held_out])
    variance = weights @ np.square(deviations[held_out]).sum(axis=1)
    best = None
    for sharpness, caution in product(_SHARPNESSES, _CAUTIONS):
        shares = neighbour_weights(likeness, counts[nearest], sharpness=sharpness, caution=caution)
        guesses = blend(shares, deviations[nearest])
        errors = weights @ np.square(deviations[held_out] - guesses).sum(axis=1)
        explained = float(1 - errors / variance) if variance > 0 else 0.0
        if explained > (best.explained if best else 0.0):
            best = SubwordSettings(sharpness, caution, explained)
    return best


def add_subwords(folder: Path) -> SubwordSettings | None:
    """Give a model folder sub-words, in place; nothing is written where spelling explains nothing."""
    model = PretrainedModel.from_pretrained(folder)
    settings = fit_subwords(model.words, model.arrays[TABLE], model.word_counts)
    if settings is not None:
        settings.save(folder)
        described = layout.describe_files(folder)
        vouched = dict.fromkeys([*model.config.files, layout.SUBWORDS])
        replace(model.config, files={name: described[name] for name in vouched}).save(folder)
    return settings
