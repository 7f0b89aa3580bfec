"""Long forms as a model's prior sees them, computed once for an inventory.

A long form is the mean of its words' vectors, the alternatives pooled into one bag of distinct words. For the LMC it is
a mixture over all sections, weighted by beta(section | long form); the mean divergence to it needs four moments.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.expansion.inventory import Sense
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.network import NumpyModelNetwork

# How a long form would stand in a text, as tuples of tokens.
#
# In a corpus without stop words "out-patient" would be found wherever "patient" stands: a form of which one word is left
# is another phrase there, and can only be read. Of several words little is lost: "otherwise specified" is seldom anything
# but "not otherwise specified". Inventories also write "alzheimer s disease", and singular or plural as it comes.


Wording = tuple[str, ...]

_LONE_S = re.compile(r"(?<=[^\W\d_]{2}) s(?= )")  # what is left of 's
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST = 4  # letters of a word that can have a plural


def wordings(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the distinct ways to write a long form that a corpus with stop words or without would have, in order."""
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, is_whole in read if is_whole))


def remains(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the words that are left of each form, for a long form that has no wording."""
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, _ in read if words))


def with_plurals(wordings: Iterable[Wording]) -> list[Wording]:
    """Add the other number of the last word of each, as English would form it."""
    given = list(wordings)
    others = ((*words[:-1], other) for words in given for other in _other_numbers(words[-1]))
    return list(dict.fromkeys([*given, *others]))


def _read(form: str, *, stop_words: bool) -> tuple[Wording, bool]:
    """The words of a form, and whether they stand for it: its first and last are among them, or several are left."""
    form = _LONE_S.sub("'s", form)
    tokens = list(iterate_tokens(form, stop_words=stop_words))
    if not tokens:
        return (), False
    before, after = form[: tokens[0].start], form[tokens[-1].end :].removeprefix("'s")
    is_whole = not _LETTER_OR_DIGIT.search(before) and not _LETTER_OR_DIGIT.search(after)
    words = tuple(word for word, _ in groupby(token.word for token in tokens))
    return words, is_whole or len(words) > 1


def _other_numbers(word: str) -> list[str]:
    if len(word) < _SHORTEST:
        return []
    others = [word + "s"]
    if word.endswith("ies"):
        others.append(word[:-3] + "y")
    if word.endswith("y"):
        others.append(word[:-1] + "ies")
    if word.endswith("es"):
        others.append(word[:-2])
    if word.endswith("s"):
        others.append(word[:-1])
    if word.endswith(("s", "x", "ch", "sh")):
        others.append(word + "es")
    return others


# Long forms as a model's prior sees them, computed once for an inventory.
#
# A long form is the mean of its words' vectors, the alternatives pooled into one bag of distinct words. For the LMC it is
# a mixture over all sections, weighted by beta(section | long form); the mean divergence to it needs four moments.


Floats = npt.NDArray[np.float64]
SectionWeights = Callable[
    [Sense, Sequence[int]], Floats
]  # a sense and its known words -> beta over all sections


@dataclass(frozen=True, slots=True)
class LongFormMoments:
    """What a mean divergence needs to know of the candidates of one short form; see `lmcells.model.moments`."""

    a0: Floats  # (K,) mean 1/v
    a1: Floats  # (K, d) mean mu/v
    a2: Floats  # (K,) mean |mu|^2/v
    a3: Floats  # (K,) mean log v
    known: npt.NDArray[np.bool_]  # (K,) whether the model knows any word of the long form

    def divergences(self, mean: Floats, log_variance: Floats) -> Floats:
        """Return KLbar of each posterior to each candidate, infinite where it is unknown: (B, d), (B,) -> (B, K)."""
        dim = mean.shape[1]
        scale = dim * np.exp(log_variance) + (mean * mean).sum(axis=1)  # (B,)
        product = np.outer(scale, self.a0) - 2 * mean @ self.a1.T + self.a2 + dim * self.a3  # (B, K)
        divergences: Floats = 0.5 * (product - dim - dim * log_variance[:, None])
        divergences[:, ~self.known] = np.inf
        return divergences


def long_form_words(sense: Sense, model: PretrainedModel) -> list[int]:
    """Return the distinct known words of all ways to write a long form, in order.

    Stop words say little in a mean, so they are left out even where the model reads them, unless all are.
    """
    for stop_words in (False, True):
        words = (token.word for form in sense.forms for token in iterate_tokens(form, stop_words=stop_words))
        known = [model.word_ids[word] for word in dict.fromkeys(words) if word in model.word_ids]
        if known or not model.reads_stop_words:
            break
    return known


def smoothing_in_training(model: PretrainedModel) -> float:
    """What was added to each count of a word under a section, so that beta can be as it was in training."""
    return float(model.config.training.get("settings", {}).get("smoothing", 1.0))


def words_section_weights(model: PretrainedModel, *, add: float = 1.0) -> SectionWeights:
    """beta(section | long form) where there is no corpus at hand: the mean of its words'."""

    def weights(_: Sense, words: Sequence[int]) -> Floats:
        each = [model.statistics.metadata_given_word(word, add=add) for word in words]
        mean: Floats = np.mean(each, axis=0)
        return mean

    return weights


def long_form_moments(
    senses: Sequence[Sense], model: PretrainedModel, *, section_weights: SectionWeights | None
) -> LongFormMoments:
    """Compute the moments of the candidates of one short form, over all sections, with no sampling.

    Without weights a long form is seen under null metadata, which is one Gaussian.
    """
    dim = model.sizes.cell_dim
    moments = LongFormMoments(
        np.zeros(len(senses)),
        np.zeros((len(senses), dim)),
        np.zeros(len(senses)),
        np.zeros(len(senses)),
        np.zeros(len(senses), np.bool_),
    )
    for row, sense in enumerate(senses):
        words = long_form_words(sense, model)
        if not words:
            continue
        if isinstance(model.prior, NumpyModelNetwork):
            weight = np.ones(1) if section_weights is None else section_weights(sense, words)  # (M,)
            sections = None if section_weights is None else np.arange(weight.size)
            vector = model.prior.phrase(np.array(words))
            components = model.prior.of_vectors(vector[None], sections)  # (M,)
            mean, log_variance = components.mean, components.log_variance.astype(np.float64)
        else:
            weight = np.ones(1)
            component = model.prior.phrase(np.array(words))
            mean, log_variance = (
                component.mean[None],
                np.atleast_1d(component.log_variance).astype(np.float64),
            )
        mean = mean.astype(np.float64)
        precision = weight * np.exp(-log_variance)
        moments.a0[row] = precision.sum()
        moments.a1[row] = precision @ mean
        moments.a2[row] = precision @ np.einsum("md,md->m", mean, mean)
        moments.a3[row] = weight @ log_variance
        moments.known[row] = True
    return moments


# Where long forms are written out in a corpus, and under which sections: beta(section | long form).
#
# A corpus holds words as the tokenizer spells them, without repeats and mostly without stop words. A form is spelt the
# same way, so "chest and abdomen" is then found wherever "chest", "abdomen" stand side by side in a segment. A form with
# a word that the corpus does not have is found nowhere: without that word it would be another phrase.


Places = npt.NDArray[np.int64]


class LongFormOccurrences:
    """Finds the phrases of an inventory in a corpus.

    places = LongFormOccurrences(corpus)
    places.of_sense(sense)                  # the first token of each occurrence, sorted
    places.metadata_counts(sense)           # how many under each section
    """

    def __init__(self, corpus: Corpus, *, metadata_kind: str = "section") -> None:
        self.corpus = corpus
        self._word_ids = {word: id_ for id_, word in enumerate(corpus.words)}
        self._segment_metadata = corpus.segment_metadata(metadata_kind)
        self._n_metadata = corpus.n_metadata(metadata_kind)
        self._found: dict[tuple[int, ...], Places] = {}

    def of_sense(self, sense: Sense) -> Places:
        """Return where any form of a sense begins; a form inside a longer one of the sense is not counted again."""
        phrases = {self._phrase(form) for form in sense.forms} - {()}
        begins = [np.zeros(0, np.int64)]
        covered = np.zeros(0, np.int64)
        for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
            found = self.of_phrase(phrase)
            found = found[~np.isin(found, covered)]
            begins.append(found)
            covered = np.concatenate([covered, (found[:, None] + np.arange(len(phrase))).ravel()])
        return np.sort(np.concatenate(begins))

    def metadata_counts(self, sense: Sense) -> npt.NDArray[np.int64]:
        """Return how often a sense is written out under each metadata: (M,)."""
        segments = self.corpus.token_segment[self.of_sense(sense)]
        return np.bincount(self._segment_metadata[segments], minlength=self._n_metadata)

    def of_phrase(self, phrase: Sequence[int]) -> Places:
        """Return where a sequence of word ids begins, all of it in one segment."""
        key = tuple(phrase)
        if key not in self._found:
            self._found[key] = self._search(key)
        return self._found[key]

    def _phrase(self, form: str) -> tuple[int, ...]:
        """Spell a form as the corpus would, or not at all."""
        tokens = iterate_tokens(form, stop_words=self.corpus.reads_stop_words)
        words = [word for word, _ in groupby(token.word for token in tokens)]
        ids = [self._word_ids.get(word, -1) for word in words]
        return () if -1 in ids else tuple(ids)

    def _search(self, phrase: tuple[int, ...]) -> Places:
        """Start from the places of the rarest word, and look at their neighbours one by one."""
        counts = self.corpus.word_counts
        anchor = min(range(len(phrase)), key=lambda at: int(counts[phrase[at]]))
        begins = self.corpus.occurrences_of(phrase[anchor]).astype(np.int64) - anchor
        n_tokens = self.corpus.tokens.size
        begins = begins[(begins >= 0) & (begins + len(phrase) <= n_tokens)]
        for at, word in enumerate(phrase):
            if at != anchor:
                begins = begins[self.corpus.tokens[begins + at] == word]
        # Segments are numbered in the order of the tokens: the first and the last word tell for all.
        segments = self.corpus.token_segment
        return np.sort(begins[segments[begins] == segments[begins + len(phrase) - 1]])


def counted_section_weights(
    model: PretrainedModel, places: LongFormOccurrences, *, add: float = 1.0
) -> SectionWeights:
    """beta(section | long form) = (count + add) / (total + add M) in a corpus; the words' mean where it has none.

    The corpus must have the model's metadata, by name; where it is the one that the model was trained on, it has.
    """
    of_words = words_section_weights(model, add=add)
    names = places.corpus.metadata_names(model.config.metadata_kind)
    if names != model.sections:
        raise InputError(
            f"{places.corpus.folder} has {len(names):,} values of {model.config.metadata_kind!r} and {model.folder} "
            f"{len(model.sections):,}, or others: it is not the corpus that the model was trained on. "
            "Give that one, or evaluate without --corpus."
        )

    def weights(sense: Sense, words: Sequence[int]) -> Floats:
        counts = places.metadata_counts(sense)
        if not counts.sum():
            return of_words(sense, words)
        smoothed: Floats = (counts + add) / (counts.sum() + add * counts.size)
        return smoothed

    return weights
