"""What a model knows about long forms.

- `wordings`: the ways to write a long form, as tuples of tokens;
- `SenseReader`, `SensesOfShortForm`: prototypes of the senses of a short form, and how well each fits a masked span.

For the paper's ranking, see `lmcells.expansion.long_form_moments`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice

import numpy as np
import numpy.typing as npt

from lmcells.expansion.inventory import Sense
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.phrase_store import NumpyPhraseNetwork, PhraseStore
from lmcells.pretrained.subwords import TABLE

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Wording = tuple[str, ...]

_LONE_S = re.compile(r"(?<=[^\W\d_]{2}) s(?= )")  # inventories write "alzheimer s disease"
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST_PLURAL = 4  # letters of a word that can have a plural
_MOST_OCCURRENCES = 300  # that count for the weight of a wording: a common one must not drown out the rest


def wordings(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the distinct ways to write a long form, in a corpus with stop words or without.

    Without stop words "out-patient" would match every "patient", so a form with only one word left is skipped. If
    several words are left, little is lost ("not otherwise specified").
    """
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, is_whole in read if is_whole))


def remaining_words(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the words left of each form, for a long form without a wording."""
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, _ in read if words))


def with_plurals(wordings: Iterable[Wording]) -> list[Wording]:
    """Add the plural or singular of each wording's last word, by English rules."""
    given = list(wordings)
    others = ((*words[:-1], other) for words in given for other in _other_numbers(words[-1]))
    return list(dict.fromkeys([*given, *others]))


def _read(form: str, *, stop_words: bool) -> tuple[Wording, bool]:
    """Return the words of a form, and whether they represent it: its first and last are there, or several are left."""
    form = _LONE_S.sub("'s", form)
    tokens = list(iterate_tokens(form, stop_words=stop_words))
    if not tokens:
        return (), False
    before, after = form[: tokens[0].start], form[tokens[-1].end :].removeprefix("'s")
    is_whole = not _LETTER_OR_DIGIT.search(before) and not _LETTER_OR_DIGIT.search(after)
    words = tuple(word for word, _ in groupby(token.word for token in tokens))
    return words, is_whole or len(words) > 1


def _other_numbers(word: str) -> list[str]:
    if len(word) < _SHORTEST_PLURAL:
        return []
    others = [word + "s"]
    for ending, replacement in (("ies", "y"), ("y", "ies"), ("es", ""), ("s", "")):
        if word.endswith(ending):
            others.append(word.removesuffix(ending) + replacement)
    if word.endswith(("s", "x", "ch", "sh")):
        others.append(word + "es")
    return others


# Prototypes. With g the vector of a masked span, c_k the prototypes of a long form's occurrences in the training text
# (s_k their shares), f the phrase network's composition of its words, and n its count:
#
#     score = a log sum_k s_k exp(g . c_k / t) + (1 - a) g . f / t + b log(1 + n)
#
# A long form that is rare or absent in the training text is known only by its words: a = 0.

TEMPERATURE = 0.05  # t, as in training
OF_OCCURRENCES = 2 / 3  # a, the weight of occurrences against words
PRIOR = 0.4  # b: common long forms are more frequent in notes than in training batches


@dataclass(frozen=True, slots=True)
class SensePrototypes:
    """What ranking needs to know about a sense."""

    by_words: Floats | None  # (d,), None if no word has a vector
    by_occurrences: Floats  # (K, d), K = 0 if no wording is frequent
    shares: Floats  # (K,)
    count: int

    @property
    def is_known(self) -> bool:
        """Whether it can be scored; otherwise it is ranked last."""
        return self.by_words is not None or len(self.shares) > 0


class SensesOfShortForm:
    """The senses of a short form, scored together."""

    def __init__(self, senses: Sequence[SensePrototypes]) -> None:
        self.senses = senses
        has_words = np.array([sense.by_words is not None for sense in senses])
        sizes = np.array([len(sense.shares) for sense in senses])
        has_occurrences = sizes > 0
        of_occurrences = np.where(has_occurrences, np.where(has_words, OF_OCCURRENCES, 1.0), 0.0)  # (S,)
        dim = senses[0].by_occurrences.shape[1]
        words = np.stack([np.zeros(dim) if sense.by_words is None else sense.by_words for sense in senses])
        occurrences = np.concatenate([sense.by_occurrences for sense in senses])
        self._words = (words.T * np.where(has_words, 1 - of_occurrences, 0)) / TEMPERATURE  # (d, S)
        self._occurrences = occurrences.T / TEMPERATURE  # (d, R)
        self._log_shares = np.log(np.concatenate([sense.shares for sense in senses]))  # (R,)
        self._starts = (np.cumsum(sizes) - sizes)[has_occurrences]  # first row of each sense with occurrences
        self._with_occurrences = np.flatnonzero(has_occurrences)
        self._weights = of_occurrences[has_occurrences]
        known = np.where([sense.is_known for sense in senses], 0.0, -np.inf)
        self._prior = known + PRIOR * np.log1p([sense.count for sense in senses])  # (S,)

    def scores(self, masked_spans: Floats) -> Floats:
        """Score how well each sense fits each masked span: (B, d) -> (B, S); -inf for an unknown sense."""
        scores: Floats = masked_spans @ self._words + self._prior
        if self._starts.size:
            similar = masked_spans @ self._occurrences + self._log_shares  # (B, R)
            of_senses = np.logaddexp.reduceat(similar, self._starts, axis=1)
            scores[:, self._with_occurrences] += self._weights * of_senses
        return scores


class SenseReader:
    """Looks up senses by their words and by their occurrences in the training text.

    read = SenseReader(model, network, store)
    read(inventory.senses("MI"))   # one SensePrototypes per sense; fastest for many senses at once
    """

    def __init__(self, model: PretrainedModel, network: NumpyPhraseNetwork, store: PhraseStore) -> None:
        self._model, self._network, self._store = model, network, store
        self._dim = model.sizes.cell_dim

    def __call__(self, senses: Sequence[Sense]) -> list[SensePrototypes]:
        """Return what is known about each sense."""
        stop_words = self._model.reads_stop_words
        written = [wordings(sense.forms, stop_words=stop_words) for sense in senses]
        by_words = self._by_words(
            [
                of_sense or remaining_words(sense.forms, stop_words=stop_words)
                for sense, of_sense in zip(senses, written, strict=True)
            ]
        )
        inflected = [with_plurals(of_sense) for of_sense in written]
        found = iter(self._store.find_all(list(chain.from_iterable(inflected))))
        prototypes = []
        for of_words, of_sense in zip(by_words, inflected, strict=True):
            seen = [each for each in islice(found, len(of_sense)) if each is not None]
            weights = np.array([min(each.count, _MOST_OCCURRENCES) for each in seen], np.float64)
            shares = [
                weight * each.shares for weight, each in zip(weights / weights.sum(), seen, strict=True)
            ]
            prototypes.append(
                SensePrototypes(
                    by_words=of_words,
                    by_occurrences=np.concatenate(
                        [np.zeros((0, self._dim)), *(each.prototypes for each in seen)]
                    ),
                    shares=np.concatenate([np.zeros(0), *shares]),
                    count=sum(each.count for each in seen),
                )
            )
        return prototypes

    def _by_words(self, phrases: Sequence[Sequence[Wording]]) -> list[Floats | None]:
        """Return the mean unit vector of each sense's phrases, None if no word has a vector."""
        distinct = dict.fromkeys(word for of_sense in phrases for words in of_sense for word in words)
        known = self._word_vectors(list(distinct))
        vectors, owners = [], []
        for owner, of_sense in enumerate(phrases):
            for words in of_sense:
                of_words = [known[word] for word in words if word in known]
                if of_words:
                    vectors.append(np.array(of_words, np.float32))
                    owners.append(owner)
        means_of: list[Floats | None] = [None] * len(phrases)
        if vectors:
            each = unit_length(self._network(vectors) - self._store.phrase_center)  # (n, d)
            with_words, first, sizes = np.unique(owners, return_index=True, return_counts=True)
            means = unit_length(np.add.reduceat(each, first, axis=0) / sizes[:, None])
            for owner, mean in zip(with_words.tolist(), means, strict=True):
                means_of[owner] = mean
        return means_of

    def _word_vectors(self, words: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors (E,) of the words that have one."""
        word_ids, subwords = self._model.word_ids, self._model.subwords
        known = [word for word in words if word in word_ids]
        table = np.asarray(self._model.arrays[TABLE][[word_ids[word] for word in known]], np.float32)
        vectors = dict(zip(known, table, strict=True))
        if subwords is not None:
            unknown = [word for word in words if word not in word_ids and word in subwords]
            vectors.update(zip(unknown, subwords.vectors(unknown), strict=True))
        return vectors


def unit_length(vectors: npt.NDArray[np.floating]) -> Floats:
    """Scale vectors to length 1, in double precision: (..., d) -> (..., d)."""
    exact = np.asarray(vectors, np.float64)
    scaled: Floats = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)
    return scaled
