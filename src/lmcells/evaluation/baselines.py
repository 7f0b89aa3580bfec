"""Rankers that read no words: chance, the most common sense, and the section alone.

Ranking equal candidates in the inventory's order would favour whatever its author wrote first. Chance and the section
therefore break ties at random, by differences too small to show in a probability.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from lmcells.corpus.sections import NO_SECTION
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_forms import LongFormOccurrences
from lmcells.expansion.windows import Mention, known_section

TIE_BREAK = 1e-9
FLOOR = 1e-6  # in place of a probability of 0: NLL stays finite, and no count in a real corpus is that rare

SectionCounts = Mapping[tuple[str, str], Counter[str]]  # short form, long form -> section -> occurrences


class PriorRanker:
    """Scores log p(sense), where p may depend on the section; with a seed, ties are broken at random."""

    def __init__(
        self,
        inventory: SenseInventory,
        probability: Callable[[Sense, str], float],
        *,
        seed: int | None = None,
    ) -> None:
        self._inventory, self._probability, self._seed = inventory, probability, seed

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Log p of each candidate."""
        random = np.random.default_rng(self._seed)
        scores = []
        for mention in mentions:
            senses = self._inventory.senses(mention.short_form)
            p = [self._probability(sense, mention.section or NO_SECTION) for sense in senses]
            noise = 0.0 if self._seed is None else TIE_BREAK * random.random(len(p))
            scores.append(np.log(np.maximum(p, FLOOR)) + noise)
        return scores


def random_ranker(inventory: SenseInventory, *, seed: int = 0) -> PriorRanker:
    """Every candidate is equally likely."""
    return PriorRanker(inventory, lambda _sense, _section: 1.0, seed=seed)


def dominant_ranker(inventory: SenseInventory, examples: Sequence[Example]) -> PriorRanker:
    """Always the most common sense of the test set itself: an oracle, to put accuracy into perspective.

    Of equally common senses the inventory's first comes first.
    """
    counts = Counter((example.short_form, example.long_form) for example in examples)
    totals = {
        short_form: sum(counts[short_form, sense.long_form] for sense in inventory.senses(short_form))
        for short_form in inventory.short_forms
    }
    return PriorRanker(
        inventory,
        lambda sense, _: counts[sense.short_form, sense.long_form] / max(totals[sense.short_form], 1),
    )


class SectionRanker(PriorRanker):
    """p(long form | section), proportional to p(section | long form) = C(section, long form) / C(long form).

    The paper's maximum-likelihood estimate: no prior of the long form, no smoothing. A probability of 0 (a section
    never seen with a long form, or a long form never seen) becomes 1e-6; ties are broken at random. "No section" counts
    as a section.
    """

    def __init__(self, inventory: SenseInventory, counts: SectionCounts, *, seed: int = 0) -> None:
        super().__init__(inventory, self._of_section, seed=seed)
        self._counts = counts
        self._totals = {sense: of_sense.total() for sense, of_sense in counts.items()}
        self._known = frozenset(section for of_sense in counts.values() for section in of_sense)

    def knows(self, section: str) -> bool:
        """Whether anything was counted under a header."""
        return known_section(section, self._known) is not None

    def _of_section(self, sense: Sense, section: str) -> float:
        key = sense.short_form, sense.long_form
        name = known_section(section, self._known)
        return self._counts[key][name] / self._totals[key] if name and self._totals.get(key) else 0.0


def count_sections_of_examples(examples: Iterable[Example]) -> SectionCounts:
    """Count on a dataset, such as reverse substitutions in training notes."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.short_form, example.long_form][example.section or NO_SECTION] += 1
    return counts


def count_sections_in_corpus(inventory: SenseInventory, occurrences: LongFormOccurrences) -> SectionCounts:
    """Count wherever a corpus writes a long form out: what reverse substitution would find in its notes."""
    names = occurrences.corpus.metadata_names("section")
    counts = {}
    for sense in inventory:
        of_section = occurrences.metadata_counts(sense)
        counts[sense.short_form, sense.long_form] = Counter(
            {names[index]: int(of_section[index]) for index in of_section.nonzero()[0]}
        )
    return counts
