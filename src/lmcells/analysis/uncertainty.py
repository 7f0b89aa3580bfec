"""How sure a model is of its words: their variance before any context is read, and what correlates with it.

A word's variance has two parts, each an average over the dimensions: `within` is the prior variance that the model
gives its cells, averaged over the word's sections; `between` is how far its sections move the mean. They are compared
with the word's frequency and two proxies of its number of senses: the long forms that an inventory has for it (short
forms), and the effective number of sections it occurs in, exp(entropy of beta(m | w)) (all words).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row
from lmcells.analysis.cells import expected_words
from lmcells.analysis.names import word_id
from lmcells.analysis.statistics import N_RESAMPLES, Floats, Numbers, Question, rank_intervals
from lmcells.errors import InputError
from lmcells.expansion.inventory import SenseInventory
from lmcells.pretrained import PretrainedModel

Variance = Literal["within", "between", "total"]
VARIANCES: tuple[Variance, ...] = ("within", "between", "total")
MIN_COUNT = 100  # rarer words have too few of their sections counted
_FEWEST = 5
# What a variance is compared with, and what is held fixed.
_OF_ALL = (("frequency", None), ("sections", None), ("sections", "frequency"))
_OF_SHORT_FORMS = (("senses", None), ("senses", "frequency"))


@dataclass(frozen=True, eq=False)
class WordVariances:
    """The variances of all words that were measured, one row each."""

    ids: npt.NDArray[np.int64]
    words: tuple[str, ...]
    count: npt.NDArray[np.int64]
    within: Floats
    between: Floats
    n_sections: Floats  # effective number
    n_senses: npt.NDArray[np.int64]  # in the inventory; 0 if the word is not one of its short forms

    @property
    def total(self) -> Floats:
        """Within sections plus between them."""
        return self.within + self.between

    def of(self, row: int) -> Row:
        """One word, by its row; `share_below` is the share of the words that have a smaller variance within."""
        columns = ("count", "within", "between", "total", "n_sections", "n_senses")
        values = {name: getattr(self, name)[row].item() for name in columns}
        return Row(word=self.words[row], **values, share_below=float((self.within < self.within[row]).mean()))

    def ranked(self, by: Variance = "within", *, most: int | None = None, largest: bool = True) -> list[Row]:
        """The words in the order of a variance."""
        values = getattr(self, by)
        order = np.argsort(-values if largest else values, kind="stable")
        return [self.of(row) for row in order[:most].tolist()]

    def named(self, model: PretrainedModel, words: Sequence[str]) -> list[Row]:
        """The words of these names."""
        rows = {id_: row for row, id_ in enumerate(self.ids.tolist())}
        ids = [word_id(model, word) for word in words]
        for id_ in ids:
            if id_ not in rows:
                raise InputError(
                    f"{model.words[id_]!r} was seen {model.word_counts[id_]:,} times, below the minimum count, or "
                    "its sections were not counted. Choose a more frequent word, or lower --min-count."
                )
        return [self.of(rows[id_]) for id_ in ids]

    def associations(self, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> list[Row]:
        """Spearman's correlation of each variance with properties of words; with `given`, at equal values of that."""
        random = np.random.default_rng(seed)
        columns: dict[str, Numbers] = {name: getattr(self, name) for name in VARIANCES}
        columns |= {"frequency": self.count, "sections": self.n_sections, "senses": self.n_senses}
        found = []
        # The inventory says nothing about words that are not its short forms.
        for asked, rows in ((_OF_ALL, self.count >= 0), (_OF_SHORT_FORMS, self.n_senses > 0)):
            chosen = {name: column[rows] for name, column in columns.items()}
            questions: list[Question] = [(each, *question) for question in asked for each in VARIANCES]
            rhos = rank_intervals(chosen, questions, n_resamples=n_resamples, random=random)
            for (variance, against, given), rho in rhos.items():
                n_words = int(rows.sum())
                found.append(Row(variance=variance, against=against, given=given, n_words=n_words, rho=rho))
        return found


def word_variances(
    model: PretrainedModel, *, inventory: SenseInventory | None = None, min_count: int = MIN_COUNT
) -> WordVariances:
    """Measure every word seen `min_count` times or more and in counted sections; placeholders are left out."""
    expected = expected_words(model)
    frequent = np.flatnonzero((model.word_counts >= min_count) & (expected.n_counted > 0)).tolist()
    ids = np.array([id_ for id_ in frequent if not model.words[id_].startswith("<")], np.int64)
    if ids.size < _FEWEST:
        raise InputError(
            f"{ids.size} words of the model were seen {min_count:,} times or more; at least {_FEWEST} are needed. "
            "Lower the minimum count (--min-count)."
        )
    words = tuple(model.words[id_] for id_ in ids.tolist())
    n_senses = count_senses(inventory) if inventory is not None else Counter()
    moments = expected.within[ids], expected.between[ids], expected.n_effective[ids]
    of_words = np.array([n_senses[word] for word in words], np.int64)
    return WordVariances(ids, words, model.word_counts[ids], *moments, of_words)


def count_senses(inventory: SenseInventory) -> Counter[str]:
    """How many long forms each short form has, as a word of the text: "PT" and "Pt" are both "pt"."""
    long_forms = {(sense.short_form.lower(), sense.long_form.casefold()) for sense in inventory}
    return Counter(short_form for short_form, _ in long_forms)
