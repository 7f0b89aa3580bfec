"""Checking a sense inventory: possible duplicates, and what a model knows about each sense.

    for finding in review_inventory(load_inventory(Path("inventory.csv"))):
        print(f"{finding.short_form}: {finding.first!r} and {finding.second!r}, {finding.rule}")
    for known in inventory_knowledge(model, inventory):
        known.how, known.count, known.unknown_words     # "frequent", 212, ()

The rules know no medicine: two senses that they connect may still differ ("hypertension" and "hypotension" are two
letters apart), so a person must decide. A model knows a sense by its *frequent* occurrences, only by its *words*, or
not at all: an *unknown* sense is always ranked last.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Literal, get_args

from lmcells.corpus import Corpus
from lmcells.expansion.inventory import Sense, SenseInventory, plain_short_form
from lmcells.expansion.long_form_moments import LongFormOccurrences, long_form_words
from lmcells.expansion.long_forms import remaining_words, with_plurals, wordings
from lmcells.expansion.ranking import MaskedSpanRanker, ranks_by_masked_span
from lmcells.notes.tokens import STOP_WORDS
from lmcells.pretrained import PretrainedModel

How = Literal["unknown", "words", "frequent"]  # the worst first

SHARED_FORM = "a form in common"
SAME_WORDS = "the same words"
GENERIC_WORD = "the same but for a generic word"
SPELLING = "two letters apart or less"
REPEATED_FORM = "one form twice"
SAME_SHORT_FORM = "short forms that differ only in case or dots"

MAX_EDITS = 2
# Words that do not change the meaning of a name.
GENERIC = frozenset(
    "condition count disease disorder finding illness level measurement problem result syndrome test testing".split()
)

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM = 4  # letters: "testing" becomes "test", but "sing" stays
_MOST_SUGGESTIONS = 300  # each costs a few milliseconds
_LENGTHS_APART = 2  # letters by which a spelling may be longer or shorter
_LEAST_LIKENESS = 0.8  # by difflib's ratio


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Two entries of a short form (or two short forms) that may be duplicates, and the rule that connects them."""

    short_form: str
    first: str
    second: str
    rule: str


def review_inventory(inventory: SenseInventory) -> list[Finding]:
    """Return all findings, in the inventory's order."""
    groups = inventory.by_short_form.values()
    same = _repeated(inventory.short_forms, plain_short_form)
    return [
        *(Finding(second, first, second, SAME_SHORT_FORM) for first, second in same),
        *(
            Finding(sense.short_form, first, second, REPEATED_FORM)
            for sense in inventory
            for first, second in _repeated(sense.forms, lambda form: " ".join(form.casefold().split()))
        ),
        *(found for senses in groups for found in find_near_duplicates(senses)),
    ]


def _repeated(written: Iterable[str], key: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of items with the same key, the earlier one first."""
    first_of: dict[str, str] = {}
    for each in written:
        first = first_of.setdefault(key(each), each)
        if first != each:
            yield first, each


def find_near_duplicates(senses: Iterable[Sense]) -> Iterator[Finding]:
    """Yield the pairs of senses of a short form that may mean the same, each with the strictest rule that applies."""
    for first, second in combinations(senses, 2):
        rule = connecting_rule(first, second)
        if rule:
            yield Finding(first.short_form, first.long_form, second.long_form, rule)


def connecting_rule(first: Sense, second: Sense) -> str | None:
    """Return the strictest rule that connects a form of one sense with a form of the other."""
    pairs = list(product(_all_forms(first), _all_forms(second)))
    if any(_normal(one) == _normal(other) for one, other in pairs):
        return SHARED_FORM
    stems = [(content_stems(one), content_stems(other)) for one, other in pairs]
    if any(one == other for one, other in stems):
        return SAME_WORDS
    if any(_specific(one) == _specific(other) for one, other in stems):
        return GENERIC_WORD
    if any(within_edits(_normal(one), _normal(other), MAX_EDITS) for one, other in pairs):
        return SPELLING
    return None


def content_stems(form: str) -> frozenset[str]:
    """Return the stems of the content words of a form, or of all its words if there are none."""
    words = _WORD.findall(form.casefold())
    content = [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]
    return frozenset(map(stem, content or words))


def stem(word: str) -> str:
    """Remove the ending of a plural, a participle or an adverb, unless too little is left."""
    for ending, replacement in (("ies", "y"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            cut = word.removesuffix(ending) + replacement
            if len(cut) >= _MIN_STEM:
                return cut.removesuffix("e")
    return word.removesuffix("e") if len(word) > _MIN_STEM else word


def within_edits(first: str, second: str, limit: int) -> bool:
    """Whether at most `limit` letters inserted, removed or replaced turn one word into the other."""
    if abs(len(first) - len(second)) > limit:
        return False
    row = list(range(len(second) + 1))
    for at, letter in enumerate(first, start=1):
        above, row = row, [at]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != other)))
        if min(row) > limit:
            return False
    return row[-1] <= limit


def _all_forms(sense: Sense) -> tuple[str, ...]:
    return tuple(dict.fromkeys((sense.long_form, *sense.forms)))


def _normal(form: str) -> str:
    return " ".join(_WORD.findall(form.casefold()))


def _specific(stems: frozenset[str]) -> frozenset[str]:
    """Drop the generic words, unless there are no others."""
    return stems - _GENERIC_STEMS or stems


_GENERIC_STEMS = frozenset(map(stem, GENERIC))


@dataclass(frozen=True, slots=True)
class SenseKnowledge:
    """What a model knows about one sense."""

    sense: Sense
    how: How
    count: int  # of its wordings in the phrase store; 0 if it is not frequent
    unknown_words: tuple[str, ...]  # of all its forms
    n_in_corpus: int | None = None  # of its wordings in the corpus that was given

    @property
    def badness(self) -> tuple[int, int, int]:
        """A key to sort by, the worst first."""
        return get_args(How).index(self.how), -len(self.unknown_words), self.count

    def to_dict(self) -> dict[str, Any]:
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
    """Look up every sense, in the inventory's order; with a corpus, also count it there."""
    occurrences = None if corpus is None else LongFormOccurrences(corpus)
    return [
        SenseKnowledge(
            sense,
            how,
            count,
            _unknown_words(sense, model),
            None if occurrences is None else _count_in_corpus(sense, occurrences),
        )
        for sense, how, count in _lookups(model, inventory)
    ]


def suggest_spellings(words: Iterable[str], vocabulary: Iterable[str]) -> dict[str, str]:
    """Return the most similar known spelling of unknown words, for a few hundred words at most."""
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
    """Ask the ranker itself."""
    if not ranks_by_masked_span(model):  # as in the paper: a long form is its words
        for sense in inventory:
            yield sense, "words" if long_form_words(sense, model) else "unknown", 0
        return
    of_short_forms = MaskedSpanRanker(model, inventory).known(inventory.short_forms)
    for short_form, senses in inventory.by_short_form.items():
        for sense, known in zip(senses, of_short_forms[short_form].senses, strict=True):
            how: How = "frequent" if known.count else "words"
            yield sense, how if known.is_known else "unknown", known.count


def _unknown_words(sense: Sense, model: PretrainedModel) -> tuple[str, ...]:
    stop_words = model.reads_stop_words
    written = wordings(sense.forms, stop_words=stop_words) or remaining_words(
        sense.forms, stop_words=stop_words
    )
    words = dict.fromkeys(word for wording in written for word in wording)
    return tuple(word for word in words if word not in model.word_ids)


def _count_in_corpus(sense: Sense, occurrences: LongFormOccurrences) -> int:
    """Count the wordings of a sense, as the phrase store of a model trained on the corpus would."""
    written = wordings(sense.forms, stop_words=occurrences.corpus.reads_stop_words)
    phrases = ([occurrences.word_ids.get(word, -1) for word in words] for words in with_plurals(written))
    return sum(len(occurrences.of_phrase(phrase)) for phrase in phrases if -1 not in phrase)
