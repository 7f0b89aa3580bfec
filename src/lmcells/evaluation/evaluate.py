"""A model and a dataset -> predictions."""

from collections.abc import Sequence

import numpy as np

from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Predictions
from lmcells.expansion.context import Mention
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.rankers import Ranker


def predict(name: str, ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory) -> Predictions:
    """Score every example whose short form the inventory has."""
    known = [example for example in examples if example.short_form in inventory]
    mentions = [Mention(each.text, each.start, each.end, each.short_form, each.section) for each in known]
    widest = max((len(inventory.senses(each.short_form)) for each in known), default=0)
    by_example = dict(zip((each.id for each in known), ranker.scores(mentions), strict=True))
    scores = np.full((len(examples), widest), -np.inf)
    for row, example in enumerate(examples):
        if example.id in by_example:
            scores[row, : by_example[example.id].size] = by_example[example.id]
    candidates_of = {
        short_form: [sense.long_form for sense in inventory.senses(short_form)]
        for short_form in inventory.short_forms
    }
    return Predictions.from_scores(name, examples=examples, scores=scores, candidates_of=candidates_of)
