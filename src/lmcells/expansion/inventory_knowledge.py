"""What a model knows of the senses of an inventory, before a note is read.

    for known in inventory_knowledge(model, inventory):
        known.how, known.count, known.unknown_words     # "frequent", 212, ()

A sense is known by its *frequent* occurrences, by its *words* alone, or not at all: one that is *unknown* is ranked
last wherever its short form stands.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from lmcells.corpus import Corpus
from lmcells.expansion.gap_ranking import GapRanker
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_form_counts import LongFormPlaces
from lmcells.expansion.long_forms import long_form_words
from lmcells.expansion.rankers import ranks_by_gap
from lmcells.expansion.wordings import remains, with_plurals, wordings
from lmcells.pretrained import PretrainedModel

How = Literal["frequent", "words", "unknown"]
WORST_FIRST: tuple[How, ...] = ("unknown", "words", "frequent")

_MOST_SUGGESTIONS = 300  # each costs a few milliseconds
_LENGTHS_APART = 2  # letters by which a spelling may be longer or shorter
_LEAST_LIKENESS = 0.8  # by difflib's ratio


@dataclass(frozen=True, slots=True)
class SenseKnowledge:
    """What a model knows of one sense."""

    sense: Sense
    how: How
    count: int  # of its wordings in the phrase store; 0 where it is not frequent
    unknown_words: tuple[str, ...]  # of all its forms
    n_in_corpus: int | None = None  # of its wordings in the corpus that was given

    @property
    def badness(self) -> tuple[int, int, int]:
        """What to sort by so that the worst come first."""
        return WORST_FIRST.index(self.how), -len(self.unknown_words), self.count

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        fields = {
            "short_form": self.sense.short_form,
            "long_form": self.sense.long_form,
            "known": self.how,
            "count": self.count,
            "unknown_words": list(self.unknown_words),
        }
        return fields if self.n_in_corpus is None else fields | {"n_in_corpus": self.n_in_corpus}


def inventory_knowledge(
    model: PretrainedModel, inventory: SenseInventory, *, corpus: Corpus | None = None
) -> list[SenseKnowledge]:
    """Look every sense up, in the inventory's order; with a corpus also how often each stands in it."""
    count_in = None if corpus is None else _PhraseCounts(corpus)
    return [
        SenseKnowledge(
            sense=sense,
            how=how,
            count=count,
            unknown_words=_unknown_words(sense, model),
            n_in_corpus=None if count_in is None else count_in.of_sense(sense),
        )
        for sense, how, count in _lookups(model, inventory)
    ]


def suggest_spellings(words: Iterable[str], vocabulary: Iterable[str]) -> dict[str, str]:
    """Return the nearest known spelling of unknown words, of those that have one; of the first few hundred at most."""
    by_start: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in vocabulary:
        by_start[word[:1], len(word)].append(word)
    suggestions: dict[str, str] = {}
    for word in list(dict.fromkeys(words))[:_MOST_SUGGESTIONS]:
        lengths = range(len(word) - _LENGTHS_APART, len(word) + _LENGTHS_APART + 1)
        alike = [other for length in lengths for other in by_start.get((word[:1], length), ())]
        nearest = difflib.get_close_matches(word, alike, n=1, cutoff=_LEAST_LIKENESS)
        if nearest:
            suggestions[word] = nearest[0]
    return suggestions


def _lookups(model: PretrainedModel, inventory: SenseInventory) -> Iterator[tuple[Sense, How, int]]:
    """Ask what will rank the senses, so that the answer is what will happen."""
    if not ranks_by_gap(model):  # then the paper's way: a long form is its words
        for sense in inventory:
            yield sense, "words" if long_form_words(sense, model) else "unknown", 0
        return
    ranker = GapRanker(model, inventory)
    for short_form in inventory.short_forms:
        for sense, known in zip(inventory.senses(short_form), ranker.directions(short_form), strict=True):
            how: How = "frequent" if known.count else "words"
            yield sense, how if known.is_known else "unknown", known.count


def _unknown_words(sense: Sense, model: PretrainedModel) -> tuple[str, ...]:
    stop_words = model.reads_stop_words
    written = wordings(sense.forms, stop_words=stop_words) or remains(sense.forms, stop_words=stop_words)
    words = dict.fromkeys(word for wording in written for word in wording)
    return tuple(word for word in words if word not in model.word_ids)


class _PhraseCounts:
    """Counts the wordings of senses in a corpus, as the phrase store of a model that is trained on it would."""

    def __init__(self, corpus: Corpus) -> None:
        self._places = LongFormPlaces(corpus)
        self._word_ids = {word: id_ for id_, word in enumerate(corpus.words)}

    def of_sense(self, sense: Sense) -> int:
        written = wordings(sense.forms, stop_words=self._places.corpus.reads_stop_words)
        phrases = ([self._word_ids.get(word, -1) for word in words] for words in with_plurals(written))
        return sum(len(self._places.of_phrase(phrase)) for phrase in phrases if -1 not in phrase)
