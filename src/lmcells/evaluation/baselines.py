"""Rankers that read no words: by chance, by the commonest sense, and by the section alone.

Where candidates are equal, a ranking by inventory order would favour whatever its author wrote first. Chance and the
section's ranker therefore break ties at random, from a seed, by differences too small to show in a probability.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lmcells.corpus.sections import NO_SECTION
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import LongFormOccurrences
from lmcells.expansion.windows import Mention

TIE_BREAK = 1e-9
FLOOR = 1e-6  # stands for a probability of zero: NLL stays finite, and no count of a real corpus is as rare

SenseKey = tuple[str, str]  # short form, long form
SectionCounts = Mapping[SenseKey, Mapping[str, int]]  # -> section -> how often the sense stands there


class RandomRanker:
    """Every candidate is as likely as the others."""

    def __init__(self, inventory: SenseInventory, *, seed: int = 0) -> None:
        self._inventory = inventory
        self._seed = seed

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Equal scores, up to the order."""
        random = np.random.default_rng(self._seed)
        return [TIE_BREAK * random.random(len(self._inventory.senses(each.short_form))) for each in mentions]


class DominantRanker:
    """Always the sense that is most common in the test set itself: an oracle, to put accuracy into perspective."""

    def __init__(self, inventory: SenseInventory, examples: Iterable[Example]) -> None:
        self._inventory = inventory
        self._counts = Counter((example.short_form, example.long_form) for example in examples)
        self._scores: dict[str, Floats] = {}

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """log p(long form); of equally common senses the first in the inventory comes first."""
        return [self._of_short_form(mention.short_form) for mention in mentions]

    def _of_short_form(self, short_form: str) -> Floats:
        if short_form not in self._scores:
            senses = self._inventory.senses(short_form)
            counts = np.array([self._counts[short_form, sense.long_form] for sense in senses], np.float64)
            self._scores[short_form] = np.log(np.maximum(counts / max(counts.sum(), 1), FLOOR))
        return self._scores[short_form]


class SectionMleRanker:
    """p(long form | section), proportional to p(section | long form) = C(section, long form) / C(long form).

    The maximum-likelihood estimate, as in the paper: no prior of the long form, nothing smoothed. A probability of
    zero (a section never seen with a long form, or a long form never seen) is a floor of 1e-6; where all
    candidates are at the floor, or several are equal, one of them is drawn. No section is a section of its own.
    """

    def __init__(self, inventory: SenseInventory, counts: SectionCounts, *, seed: int = 0) -> None:
        self._inventory = inventory
        self._counts = counts
        self._totals = {sense: sum(of_sense.values()) for sense, of_sense in counts.items()}
        self._seed = seed

    @property
    def sections(self) -> list[str]:
        """The sections that were counted, most frequent first."""
        total: Counter[str] = Counter()
        for of_sense in self._counts.values():
            total.update(of_sense)
        return [section for section, _ in total.most_common() if section != NO_SECTION]

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """log p(section | long form)."""
        random = np.random.default_rng(self._seed)
        scores = []
        for mention in mentions:
            likelihoods = np.array(
                [
                    self._likelihood(mention.section, (mention.short_form, sense.long_form))
                    for sense in self._inventory.senses(mention.short_form)
                ]
            )
            scores.append(np.log(likelihoods) + TIE_BREAK * random.random(likelihoods.size))
        return scores

    def _likelihood(self, section: str | None, sense: SenseKey) -> float:
        if not self._totals.get(sense):
            return FLOOR
        return max(self._counts[sense].get(section or NO_SECTION, 0) / self._totals[sense], FLOOR)


def count_sections_of_examples(examples: Iterable[Example]) -> SectionCounts:
    """Count on a dataset, such as reverse substitutions in training notes."""
    counts: defaultdict[SenseKey, Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.short_form, example.long_form][example.section or NO_SECTION] += 1
    return counts


def count_sections_in_corpus(inventory: SenseInventory, places: LongFormOccurrences) -> SectionCounts:
    """Count wherever a corpus writes a long form out: what reverse substitution would find in its notes."""
    names = places.corpus.metadata_names("section")
    counts: dict[SenseKey, Counter[str]] = {}
    for sense in inventory:
        under = places.metadata_counts(sense)
        counts[sense.short_form, sense.long_form] = Counter(
            {names[index]: int(under[index]) for index in under.nonzero()[0]}
        )
    return counts
