"""Where long forms are written out in a corpus, and under which sections: beta(section | long form).

A corpus holds words as the tokenizer spells them, without repeats and mostly without stop words. A form is spelt the
same way, so "chest and abdomen" is then found wherever "chest", "abdomen" stand side by side in a segment. A form with
a word that the corpus does not have is found nowhere: without that word it would be another phrase.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats, SectionWeights, words_section_weights
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel

Places = npt.NDArray[np.int64]


class LongFormPlaces:
    """Finds the phrases of an inventory in a corpus.

    places = LongFormPlaces(corpus)
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
    model: PretrainedModel, places: LongFormPlaces, *, add: float = 1.0
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
