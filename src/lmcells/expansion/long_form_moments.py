"""What a model knows about long forms, as in the paper.

- `long_form_moments`: a long form as a mixture of Gaussians of the model network;
- `LongFormOccurrences`: where long forms occur in a corpus, and in which sections.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus
from lmcells.corpus.corpus import TOKEN_SEGMENT, require_ids
from lmcells.errors import InputError
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats, Ids
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.network import NumpyModelNetwork

# As in the paper: a long form is the mean of its words' vectors, its forms pooled into one bag of distinct words. For
# the LMC it is a mixture over all sections, weighted by beta(section | long form), and the mean divergence to it needs
# only four moments.

SectionWeights = Callable[[Sense, Sequence[int]], Floats]
"""A sense and its known words -> beta over all sections."""


@dataclass(frozen=True, slots=True)
class LongFormMoments:
    """The moments of the candidates of one short form; see `lmcells.model.moments`."""

    a0: Floats  # (K,) mean 1/v
    a1: Floats  # (K, d) mean mu/v
    a2: Floats  # (K,) mean |mu|^2/v
    a3: Floats  # (K,) mean log v
    known: npt.NDArray[np.bool_]  # (K,) whether the model knows any word of the long form

    def divergences(self, mean: Floats, log_variance: Floats) -> Floats:
        """Return KLbar of each posterior to each candidate, infinite for unknown ones: (B, d), (B,) -> (B, K)."""
        dim = mean.shape[1]
        scale = dim * np.exp(log_variance) + (mean * mean).sum(axis=1)  # (B,)
        product = np.outer(scale, self.a0) - 2 * mean @ self.a1.T + self.a2 + dim * self.a3  # (B, K)
        divergences: Floats = 0.5 * (product - dim - dim * log_variance[:, None])
        divergences[:, ~self.known] = np.inf
        return divergences


def long_form_words(sense: Sense, model: PretrainedModel) -> list[int]:
    """Return the distinct known words of all forms of a long form, in order.

    Stop words add little to a mean, so they are left out even if the model has them, unless there are no other words.
    """
    for stop_words in (False, True):
        words = (token.word for form in sense.forms for token in iterate_tokens(form, stop_words=stop_words))
        known = [model.word_ids[word] for word in dict.fromkeys(words) if word in model.word_ids]
        if known or not model.reads_stop_words:
            break
    return known


def long_form_moments(
    senses: Sequence[Sense], model: PretrainedModel, *, section_weights: SectionWeights | None
) -> LongFormMoments:
    """Compute the moments of the candidates of one short form, over all sections, without sampling.

    Without weights a long form has null metadata, and so a single Gaussian.
    """
    n, dim = len(senses), model.sizes.cell_dim
    moments = LongFormMoments(
        np.zeros(n), np.zeros((n, dim)), np.zeros(n), np.zeros(n), np.zeros(n, np.bool_)
    )
    for row, sense in enumerate(senses):
        words = long_form_words(sense, model)
        if not words:
            continue
        weight = np.ones(1)
        if isinstance(model.prior, NumpyModelNetwork):
            sections = None
            if section_weights is not None:
                weight = section_weights(sense, words)  # (M,)
                sections = np.arange(weight.size)
            component = model.prior.of_vectors(model.prior.phrase(np.array(words))[None], sections)  # (M,)
        else:
            component = model.prior.phrase(np.array(words))
        mean = np.atleast_2d(component.mean).astype(np.float64)
        log_variance = np.atleast_1d(component.log_variance).astype(np.float64)
        precision = weight * np.exp(-log_variance)
        moments.a0[row] = precision.sum()
        moments.a1[row] = precision @ mean
        moments.a2[row] = precision @ np.einsum("md,md->m", mean, mean)
        moments.a3[row] = weight @ log_variance
        moments.known[row] = True
    return moments


def _smoothing_in_training(model: PretrainedModel) -> float:
    """Return the add-k smoothing of section counts in training."""
    return float(model.config.training.get("settings", {}).get("smoothing", 1.0))


def words_section_weights(model: PretrainedModel) -> SectionWeights:
    """Return beta(section | long form) as the mean over its words, smoothed as in training, without a corpus."""
    add = _smoothing_in_training(model)

    def weights(_: Sense, words: Sequence[int]) -> Floats:
        each = [model.statistics.metadata_given_word(word, add=add) for word in words]
        mean: Floats = np.mean(each, axis=0)
        return mean

    return weights


class LongFormOccurrences:
    """Finds the long forms of an inventory in a corpus.

    A form is tokenised like the corpus: without repeats, and usually without stop words, so "chest and abdomen" is
    found wherever "chest" and "abdomen" are adjacent in a segment. A form with an out-of-vocabulary word is never
    found: without that word it would be another phrase.

    occurrences = LongFormOccurrences(corpus)
    occurrences.of_sense(sense)                  # the position of each one's first token, sorted
    occurrences.metadata_counts(sense)           # how many in each section
    """

    def __init__(self, corpus: Corpus, *, metadata_kind: str = "section") -> None:
        self.corpus = corpus
        self.word_ids = {word: id_ for id_, word in enumerate(corpus.words)}
        self._segment_metadata = corpus.segment_metadata(metadata_kind)
        self._n_metadata = corpus.n_metadata(metadata_kind)
        self._found: dict[tuple[int, ...], Ids] = {}

    def of_sense(self, sense: Sense) -> Ids:
        """Return where the forms of a sense begin; a form inside a longer one is not counted again."""
        phrases = {self._phrase(form) for form in sense.forms} - {()}
        begins = [np.zeros(0, np.int64)]
        covered = np.zeros(0, np.int64)
        for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
            found = self.of_phrase(phrase)
            found = found[~np.isin(found, covered)]
            begins.append(found)
            covered = np.concatenate([covered, (found[:, None] + np.arange(len(phrase))).ravel()])
        return np.sort(np.concatenate(begins))

    def metadata_counts(self, sense: Sense) -> Ids:
        """Count the occurrences of a sense by metadata value: (M,)."""
        segments = self.corpus.token_segment[self.of_sense(sense)]
        require_ids(segments, self._segment_metadata.size, source=self.corpus.folder / TOKEN_SEGMENT)
        return np.bincount(self._segment_metadata[segments], minlength=self._n_metadata)

    def of_phrase(self, phrase: Sequence[int]) -> Ids:
        key = tuple(phrase)
        if key not in self._found:
            self._found[key] = self._search(key)
        return self._found[key]

    def _phrase(self, form: str) -> tuple[int, ...]:
        tokens = iterate_tokens(form, stop_words=self.corpus.reads_stop_words)
        words = [word for word, _ in groupby(token.word for token in tokens)]
        ids = [self.word_ids.get(word, -1) for word in words]
        return () if -1 in ids else tuple(ids)

    def _search(self, phrase: tuple[int, ...]) -> Ids:
        """Start from the occurrences of the rarest word, and check its neighbours one by one."""
        counts = self.corpus.word_counts
        anchor = min(range(len(phrase)), key=lambda at: int(counts[phrase[at]]))
        begins = self.corpus.occurrences_of(phrase[anchor]).astype(np.int64) - anchor
        n_tokens = self.corpus.tokens.size
        begins = begins[(begins >= 0) & (begins + len(phrase) <= n_tokens)]
        for at, word in enumerate(phrase):
            if at != anchor:
                begins = begins[self.corpus.tokens[begins + at] == word]
        # Segment numbers never decrease, so comparing the first and last word is enough.
        segments = self.corpus.token_segment
        return np.sort(begins[segments[begins] == segments[begins + len(phrase) - 1]])


def counted_section_weights(model: PretrainedModel, occurrences: LongFormOccurrences) -> SectionWeights:
    """Return beta(section | long form) = (count + add) / (total + add M) in a corpus; the words' mean if that has none.

    `add` is that of training. The corpus must have the same metadata names as the model's own.
    """
    add, of_words = _smoothing_in_training(model), words_section_weights(model)
    corpus, kind = occurrences.corpus, model.config.metadata_kind
    names = corpus.metadata_names(kind)
    if names != model.sections:
        raise InputError(
            f"{corpus.folder} has {len(names):,} values of {kind!r}, which differ from the {len(model.sections):,} of "
            f"{model.folder}, so the model was trained on another corpus. Give that one, or evaluate without --corpus."
        )

    def weights(sense: Sense, words: Sequence[int]) -> Floats:
        counts = occurrences.metadata_counts(sense)
        if not counts.sum():
            return of_words(sense, words)
        smoothed: Floats = (counts + add) / (counts.sum() + add * counts.size)
        return smoothed

    return weights
