"""Rankers that read no words: chance, the most common sense, and the section alone.

Ranking equal candidates in the inventory's order would favour whatever its author wrote first. Chance and the section
therefore break ties at random, by differences too small to show in a probability.
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
FLOOR = 1e-6  # in place of a probability of 0: NLL stays finite, and no count in a real corpus is that rare

SenseKey = tuple[str, str]  # short form, long form
SectionCounts = Mapping[SenseKey, Mapping[str, int]]  # -> section -> occurrences of the sense


class RandomRanker:
    """Every candidate is equally likely."""

    def __init__(self, inventory: SenseInventory, *, seed: int = 0) -> None:
        self._inventory = inventory
        self._seed = seed

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Equal scores, up to the random order."""
        random = np.random.default_rng(self._seed)
        return [TIE_BREAK * random.random(len(self._inventory.senses(each.short_form))) for each in mentions]


class DominantRanker:
    """Always the most common sense of the test set itself: an oracle, to put accuracy into perspective."""

    def __init__(self, inventory: SenseInventory, examples: Iterable[Example]) -> None:
        self._inventory = inventory
        self._counts = Counter((example.short_form, example.long_form) for example in examples)

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """log p(long form); of equally common senses the inventory's first comes first."""
        score_of = {
            short_form: self._log_shares(short_form) for short_form in {each.short_form for each in mentions}
        }
        return [score_of[mention.short_form] for mention in mentions]

    def _log_shares(self, short_form: str) -> Floats:
        senses = self._inventory.senses(short_form)
        counts = np.array([self._counts[short_form, sense.long_form] for sense in senses], np.float64)
        shares: Floats = np.log(np.maximum(counts / max(counts.sum(), 1), FLOOR))
        return shares


class SectionMleRanker:
    """p(long form | section), proportional to p(section | long form) = C(section, long form) / C(long form).

    The paper's maximum-likelihood estimate: no prior of the long form, no smoothing. A probability of 0 (a section
    never seen with a long form, or a long form never seen) becomes 1e-6; ties are broken at random. "No section" counts
    as a section.
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
            senses = self._inventory.senses(mention.short_form)
            keys = [(mention.short_form, sense.long_form) for sense in senses]
            likelihoods = np.array([self._likelihood(mention.section, key) for key in keys])
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


def count_sections_in_corpus(inventory: SenseInventory, occurrences: LongFormOccurrences) -> SectionCounts:
    """Count wherever a corpus writes a long form out: what reverse substitution would find in its notes."""
    names = occurrences.corpus.metadata_names("section")
    counts: dict[SenseKey, Counter[str]] = {}
    for sense in inventory:
        of_section = occurrences.metadata_counts(sense)
        counts[sense.short_form, sense.long_form] = Counter(
            {names[index]: int(of_section[index]) for index in of_section.nonzero()[0]}
        )
    return counts
