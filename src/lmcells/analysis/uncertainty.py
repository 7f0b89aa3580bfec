"""How sure a model is of its words: their variance before any context is read, and what correlates with it.

`within` is the prior variance of a word's cells, averaged over its sections; `between` is how far its sections move
the mean. Both are averages over the dimensions.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lmcells.analysis import Row, rows_of
from lmcells.analysis.cells import expected_words
from lmcells.analysis.names import word_id
from lmcells.analysis.statistics import N_RESAMPLES, Question, rank_intervals
from lmcells.errors import InputError
from lmcells.expansion.inventory import SenseInventory
from lmcells.pretrained import PretrainedModel

VARIANCES = ("within", "between", "total")
MIN_COUNT = 100  # rarer words have too few of their sections counted
_FEWEST = 5
# What a variance is compared with, and what is held fixed.
_OF_ALL = (("frequency", None), ("sections", None), ("sections", "frequency"))
_OF_SHORT_FORMS = (("senses", None), ("senses", "frequency"))
COLUMNS = {"frequency": "count", "sections": "n_sections", "senses": "n_senses"}  # of a word's row


def word_variances(
    model: PretrainedModel, *, inventory: SenseInventory | None = None, min_count: int = MIN_COUNT
) -> tuple[Row, ...]:
    """Measure every word seen `min_count` times or more and in counted sections; placeholders are left out.

    `n_sections` is the effective number; `n_senses` is 0 for a word that is not a short form of the inventory;
    `share_below` is the share of the words that have a smaller variance within.
    """
    expected = expected_words(model)
    frequent = np.flatnonzero((model.word_counts >= min_count) & (expected.n_counted > 0)).tolist()
    ids = np.array([id_ for id_ in frequent if not model.words[id_].startswith("<")], np.int64)
    if ids.size < _FEWEST:
        raise InputError(
            f"{ids.size} words of the model were seen {min_count:,} times or more; at least {_FEWEST} are needed. "
            "Lower the minimum count (--min-count)."
        )
    words = [model.words[id_] for id_ in ids.tolist()]
    n_senses = count_senses(inventory) if inventory is not None else Counter()
    within, between = expected.within[ids], expected.between[ids]
    return rows_of(
        word=words,
        count=model.word_counts[ids],
        within=within,
        between=between,
        total=within + between,
        n_sections=expected.n_effective[ids],
        n_senses=[n_senses[word] for word in words],
        share_below=np.searchsorted(np.sort(within), within) / ids.size,
    )


def named_words(model: PretrainedModel, measured: Sequence[Row], words: Sequence[str]) -> list[Row]:
    row_of = {row.word: row for row in measured}
    ids = [word_id(model, word) for word in words]
    for id_ in ids:
        if model.words[id_] not in row_of:
            raise InputError(
                f"{model.words[id_]!r} was seen {model.word_counts[id_]:,} times, below the minimum count, or "
                "its sections were not counted. Choose a more frequent word, or lower --min-count."
            )
    return [row_of[model.words[id_]] for id_ in ids]


def associations(measured: Sequence[Row], *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> list[Row]:
    """Spearman's correlation of each variance with properties of words; with `given`, at equal values of that."""
    random = np.random.default_rng(seed)
    found = []
    # The inventory says nothing about words that are not its short forms.
    for asked, rows in ((_OF_ALL, measured), (_OF_SHORT_FORMS, [row for row in measured if row.n_senses])):
        names = {**dict(zip(VARIANCES, VARIANCES, strict=True)), **COLUMNS}
        columns = {name: np.array([row[key] for row in rows]) for name, key in names.items()}
        questions: list[Question] = [(each, *question) for question in asked for each in VARIANCES]
        rhos = rank_intervals(columns, questions, n_resamples=n_resamples, random=random)
        for (variance, against, given), rho in rhos.items():
            found.append(Row(variance=variance, against=against, given=given, n_words=len(rows), rho=rho))
    return found


def count_senses(inventory: SenseInventory) -> Counter[str]:
    """How many long forms each short form has, as a word of the text: "PT" and "Pt" are both "pt"."""
    long_forms = {(sense.short_form.lower(), sense.long_form.casefold()) for sense in inventory}
    return Counter(short_form for short_form, _ in long_forms)
